#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tandem::perf {

/// Which ranks move data in an operation.
enum class rank_pattern {
  pair,        ///< the first rank and the last
  neighbours,  ///< each rank sends to the next and receives from the previous one
  all,         ///< a collective
};

/// An operation that can be measured.
struct operation {
  std::string_view name;  ///< as in nccl-tests, without underscores
  rank_pattern who = rank_pattern::all;
  bool reduces = false;
  /// `bytes` consists of one equal block for each rank, of whole elements.
  bool blocks = false;
  /// Ratio of bus bandwidth to algorithm bandwidth for n ranks.
  double (*busbw_factor)(int n) = nullptr;
};

std::span<const operation> operations() noexcept;

/// Finds an operation by name, also as "all_reduce" or "all-reduce"; null if there is none.
const operation* find_operation(std::string_view name) noexcept;

/// The bytes that an operation moves for the requested `bytes`: blocks are rounded down to whole
/// elements, as in nccl-tests, but have at least one.
std::size_t bytes_moved(const operation& what, std::size_t bytes, int ranks,
                        std::size_t element_bytes) noexcept;

}  // namespace tandem::perf
