#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tandem::perf {

/// Who moves data in an operation.
enum class pattern_of_ranks {
  pair,        ///< the first rank and the last
  neighbours,  ///< each rank sends to the next and receives from the one before
  all,         ///< a collective
};

/// What can be measured.
struct operation {
  std::string_view name;  ///< as in nccl-tests, without underscores
  pattern_of_ranks who = pattern_of_ranks::all;
  bool reduces = false;
  /// `bytes` are one equal block for each rank, of whole elements.
  bool blocks = false;
  /// Of n ranks: the bandwidth of the bus by that of the algorithm.
  double (*busbw_factor)(int n) = nullptr;
};

std::span<const operation> operations() noexcept;

/// By its name, also as "all_reduce" or "all-reduce"; null where there is none.
const operation* find_operation(std::string_view name) noexcept;

/// The bytes that an operation moves where `bytes` are asked for: blocks are rounded down to whole
/// elements, as nccl-tests does, but hold at least one.
std::size_t bytes_moved(const operation& what, std::size_t bytes, int ranks,
                        std::size_t element_bytes) noexcept;

}  // namespace tandem::perf
