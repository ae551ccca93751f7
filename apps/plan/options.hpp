#pragma once

#include <optional>
#include <span>
#include <string>
#include <tandem/parallel.hpp>
#include <tandem/plan.hpp>
#include <tandem/settings.hpp>
#include <vector>

namespace tandem::planner {

/// The parsed command line.
struct plan_options {
  enum class request { show, probe, groups };
  request what = request::show;
  std::optional<parallel_layout> layout;  ///< for groups
  std::vector<std::vector<int>> members;  ///< for groups, instead of a layout: the ranks of each
  std::vector<rank_facts> ranks;          ///< for groups, without a launcher
  facts assumed;                          ///< without a launcher
  bool assumes = false;                   ///< some of `assumed` was given
  std::string channel = "tcp";
  bool explains_paths = false;  ///< each pair of ranks chooses its transport
  std::string memory = "host";  ///< memory of most messages, by local rank
  std::string op;               ///< the one operation to show; empty: all
  std::string save;             ///< output file; empty: none
  settings engine;
};

/// Empty if help was printed. @par Errors `errc::bad_option`; those of `facts::load`.
std::optional<plan_options> parse_options(std::span<const std::string> args);

/// Parses the ranks of groups: "0-3/4-7,9" is two of them. @par Errors `errc::bad_option`.
std::vector<std::vector<int>> parse_members(const std::string& text);

/// Parses "2x2" (hosts, ranks of each) or the host of each rank: "a,b,a,b".
/// @par Errors `errc::bad_option`.
std::vector<std::string> parse_hosts(const std::string& text);

}  // namespace tandem::planner
