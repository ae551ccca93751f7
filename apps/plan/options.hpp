#pragma once

#include <optional>
#include <span>
#include <string>
#include <tandem/collectives/facts.hpp>
#include <tandem/collectives/group_choice.hpp>
#include <tandem/collectives/parallel_layout.hpp>
#include <tandem/settings.hpp>
#include <vector>

namespace tandem::planner {

/// What a command line asks for.
struct plan_options {
  enum class wish { show, probe, groups };
  wish what = wish::show;
  std::optional<parallel_layout> layout;  ///< of groups
  std::vector<rank_facts> ranks;          ///< of groups, without a launcher
  facts assumed;                          ///< without a launcher
  bool assumes = false;                   ///< some of it was given
  std::string channel = "tcp";
  bool explains_ways = false;   ///< each pair chooses what carries its messages
  std::string memory = "host";  ///< where most of what is sent lies, by local rank
  std::string op;               ///< the one operation to show; empty: all
  std::string save;             ///< a file; empty: none
  settings engine;
};

/// Empty where help was asked for. @par Errors `errc::bad_option`; those of `facts::load`.
std::optional<plan_options> parse_options(std::span<const std::string> args);

/// "4" ranks on one host, "2x2", or the host of each rank: "a,b,a,b".
/// @par Errors `errc::bad_option`.
std::vector<std::string> parse_hosts(const std::string& text);

}  // namespace tandem::planner
