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

asio::awaitable<void> copy_in_pieces(mutable_view into, const_view from) {
  // Another process orders its accesses by messages, which are sent after this and arrive before.
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
