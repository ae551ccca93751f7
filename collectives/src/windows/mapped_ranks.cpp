#include "windows/mapped_ranks.hpp"

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/detail/copy.hpp>

namespace tandem::detail {
namespace {

/// Some tens of microseconds.
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

}  // namespace

// Another process orders its accesses by messages, which are sent after a copy and arrive before.

bool copy_at_once(mutable_view into, const_view from) noexcept {
  if (from.bytes > piece_bytes) return false;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (from.bytes > 0) copy_part(into.data, from.data, from.bytes, from.bytes);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return true;
}

asio::awaitable<void> copy_in_pieces(mutable_view into, const_view from) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t done = 0; done < from.bytes;) {
    const std::size_t piece = std::min(piece_bytes, from.bytes - done);
    copy_part(static_cast<std::byte*>(into.data) + done,
              static_cast<const std::byte*>(from.data) + done, piece, from.bytes);
    done += piece;
    if (done < from.bytes) co_await asio::post(asio::use_awaitable);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace tandem::detail
