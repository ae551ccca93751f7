#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tandem/collectives.hpp>
#include <tandem/settings.hpp>
#include <vector>

#include "perf/aligned_memory.hpp"
#include "perf/operation.hpp"

namespace tandem::perf {

/// The parsed command line.
struct perf_options {
  const operation* op = nullptr;
  algorithm how = algorithm::automatic;
  data_type type = data_type::float32;
  reduce_op reduction = reduce_op::sum;
  std::string channel = "tcp";
  std::string memory = "host";  ///< memory of messages: host, shared, cuda, hip, or a list
  /// Number of emulated islands and ranks of each, in the order of ranks; 0: none.
  int islands = 0, island_ranks = 0;
  int ranks = 0;  ///< 0: not given
  std::vector<std::size_t> bytes;
  int depth = 0;                    ///< messages in flight
  std::vector<std::int64_t> iters;  ///< one for each size; empty: chosen by time
  int warmup = -1;                  ///< -1: chosen by time
  std::string json;                 ///< output file; empty: none
  settings engine;

  bool point_to_point() const { return op->who == rank_pattern::pair; }
  bool on_devices() const;
  /// Allocator of host memory.
  memory_source source() const;
  /// Size of the reduced elements, or 1.
  std::size_t element_bytes() const { return op->reduces ? bytes_of(type) : 1; }
};

/// The operation of that name. @par Errors `errc::bad_option`, with the closest name.
const operation* parse_operation(const std::string& word);

/// The collective that an operation calls; empty if it calls none.
std::optional<collective> collective_of(const operation& op) noexcept;

/// The algorithm of that name. @par Errors `errc::bad_option` if the operation has no such
/// algorithm, with those that it has.
algorithm parse_algorithm(const operation& op, const std::string& word);

/// Parses a command line and sets defaults that depend on the operation (sizes, depth). Empty if
/// help was printed.
/// @par Errors `errc::bad_option`, one line.
std::optional<perf_options> parse_options(std::span<const std::string> args);

/// The engine options that differ from their defaults, by name.
std::vector<std::pair<std::string, std::string>> changed_settings(const settings& engine);

}  // namespace tandem::perf
