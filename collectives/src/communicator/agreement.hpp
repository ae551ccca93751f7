#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <span>
#include <string>
#include <tandem/communicator.hpp>
#include <tandem/error.hpp>
#include <tandem/plan.hpp>
#include <vector>

namespace tandem::detail {

/// The settings of a rank that affect the plan, one line each. They must be the same on all ranks.
std::string plan_settings(std::string_view channel, const settings& options);

/// The first line in which the texts of ranks differ, and the ranks with each version: `"ring" on
/// ranks 0, 1 and 3; "tree" on rank 2`. The most common version comes first. Empty if all are
/// equal.
struct difference {
  std::string text;
  int rank;  ///< the first rank with the least common version
};
std::optional<difference> difference_of(std::span<const std::string> text_of_rank);

/// The error that every rank throws then.
error disagreement(const difference& found);

/// Gathers every rank's text on every rank, by rank. Collective.
asio::awaitable<std::vector<std::string>> exchange_texts(communicator& all, std::string mine);

/// Throws `errc::call_mismatch` on every rank if the texts of the ranks' plans differ, with the
/// ranks that have each line. Collective; one small all_gather of hashes if they are equal.
asio::awaitable<void> compare_plans(communicator& all, std::string mine);

}  // namespace tandem::detail
