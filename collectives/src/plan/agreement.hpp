#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <span>
#include <string>
#include <tandem/collectives/communicator.hpp>
#include <tandem/collectives/plan.hpp>
#include <tandem/error.hpp>
#include <vector>

namespace tandem::detail {

/// What the settings of a rank say of the plan, a line for each. All ranks must have the same.
std::string plan_settings(std::string_view channel, const settings& options);

/// The first line in which texts of several ranks differ, and who has which: `"ring" on ranks 0, 1
/// and 3; "tree" on rank 2`. The most common comes first. Nothing where all are equal.
struct difference {
  std::string text;
  int rank;  ///< the first of the fewest
};
std::optional<difference> difference_of(std::span<const std::string> text_of_rank);

/// What every rank throws then.
error disagreement(const difference& found);

/// Every rank's text on every rank, by rank. Collective.
asio::awaitable<std::vector<std::string>> exchange_texts(communicator& all, std::string mine);

/// Throws `errc::call_mismatch` on every rank where the texts of the ranks' plans differ: who has
/// which line. Collective; costs one small all_gather of hashes where they are the same.
asio::awaitable<void> compare_plans(communicator& all, std::string mine);

}  // namespace tandem::detail
