#include "perf/operation.hpp"

#include <algorithm>
#include <string>

namespace tandem::perf {

namespace {

double one(int) {
  return 1;
}
double once_around(int n) {
  return static_cast<double>(n - 1) / n;
}
double twice_around(int n) {
  return 2.0 * (n - 1) / n;
}

/// Factors: nccl-tests, doc/PERFORMANCE.md, Summary; those of gather, scatter and sendrecv from
/// GetBw in its src/gather.cu, src/scatter.cu and src/sendrecv.cu.
constexpr operation table[] = {
    {"pingpong", rank_pattern::pair, false, false, one},
    {"oneway", rank_pattern::pair, false, false, one},
    {"sendrecv", rank_pattern::neighbours, false, false, one},
    {"allreduce", rank_pattern::all, true, false, twice_around},
    {"reduce", rank_pattern::all, true, false, one},
    {"broadcast", rank_pattern::all, false, false, one},
    {"allgather", rank_pattern::all, false, true, once_around},
    {"reducescatter", rank_pattern::all, true, true, once_around},
    {"gather", rank_pattern::all, false, true, once_around},
    {"scatter", rank_pattern::all, false, true, once_around},
    {"alltoall", rank_pattern::all, false, true, once_around},
    {"barrier", rank_pattern::all, false, false, one},
};

}  // namespace

std::span<const operation> operations() noexcept {
  return table;
}

const operation* find_operation(std::string_view name) noexcept {
  std::string plain(name);
  std::erase_if(plain, [](char c) { return c == '_' || c == '-'; });
  const auto* const found = std::ranges::find(table, plain, &operation::name);
  return found == std::end(table) ? nullptr : found;
}

std::size_t bytes_moved(const operation& what, std::size_t bytes, int ranks,
                        std::size_t element_bytes) noexcept {
  if (!what.blocks) return bytes;
  const std::size_t unit = element_bytes * static_cast<std::size_t>(ranks);
  return std::max<std::size_t>(bytes / unit, 1) * unit;
}

}  // namespace tandem::perf
