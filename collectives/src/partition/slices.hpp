#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <tandem/async.hpp>

#include "partition/blocks.hpp"

namespace tandem::detail {

/// The number of slices of a two-level call. Slices are pipelined through the levels: while one is
/// sent across hosts, the next is combined inside them. Each slice has at least one chunk, and
/// there are at most 8, which leaves an eighth of the time of the faster levels not overlapped.
constexpr std::size_t slice_count(std::size_t bytes, std::size_t chunk_bytes) noexcept {
  return std::clamp<std::size_t>(bytes / std::max<std::size_t>(chunk_bytes, 1), 1, 8);
}

class slices {
 public:
  slices(const asio::any_io_executor& executor, std::size_t bytes, std::size_t element_bytes,
         std::size_t chunk_bytes)
      : cut_(bytes / element_bytes, element_bytes,
             static_cast<int>(slice_count(bytes, chunk_bytes))),
        changed_(executor) {}

  int count() const noexcept { return cut_.ranks(); }
  std::size_t longest() const noexcept { return cut_.longest(); }
  mutable_view of(mutable_view data, int slice) const noexcept { return cut_.in(data, slice); }
  const_view of(const_view data, int slice) const noexcept { return cut_.in(data, slice); }

  static constexpr int none = -1;
  /// Returns when the level has completed the slice.
  asio::awaitable<void> wait_for(int level, int slice) {
    while (level != none && done_[static_cast<std::size_t>(level)] <= slice) {
      co_await changed_.wait();
    }
  }
  /// Marks one more slice of the level as complete.
  void pass(int level) {
    ++done_[static_cast<std::size_t>(level)];
    changed_.notify_all();
  }

 private:
  const blocks cut_;
  std::array<int, 3> done_{};
  async_condition changed_;
};

}  // namespace tandem::detail
