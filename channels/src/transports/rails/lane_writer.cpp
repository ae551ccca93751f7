#include "transports/rails/lane_writer.hpp"

#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace tandem::rails {
namespace {

/// A batch ends here: other lanes get their turn, and later pieces may be more urgent.
constexpr std::size_t batch_bytes = 512 * 1024;

}  // namespace

lane_writer::outcome lane_writer::write_some(lane_connection& to, core::time_point now) {
  if (!to.flush()) return outcome::full;
  if (!is_busy() && !fill(now)) return outcome::idle;
  std::array<iovec, 2 * max_batch_writes> parts;
  while (is_busy()) {
    if (batch_[first_].placed) {
      if (!place(to)) return outcome::full;
      continue;
    }
    std::size_t count = 0;
    std::size_t skip = first_done_bytes_;
    for (std::size_t i = first_; i < size_ && !batch_[i].placed; ++i) {
      lane_write& p = batch_[i];
      if (skip < p.head_bytes) {
        parts[count++] = {p.head.data() + skip, p.head_bytes - skip};
        skip = 0;
      } else {
        skip -= p.head_bytes;
      }
      if (p.payload.bytes > skip) {
        auto* bytes = static_cast<std::byte*>(const_cast<void*>(p.payload.data));
        parts[count++] = {bytes + skip, p.payload.bytes - skip};
      }
      skip = 0;
    }
    const ssize_t n = to.send(std::span(parts).first(count));
    if (n >= 0) {
      advance(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      return outcome::full;
    }
  }
  return to.flush() ? outcome::wrote : outcome::full;
}

/// The NIC may have read all before this returns.
bool lane_writer::place(lane_connection& to) {
  lane_write& p = batch_[first_];
  placement what;
  what.from = p.payload;
  what.local_key = p.placed->local_key;
  what.remote_key = p.placed->remote_key;
  what.to = p.placed->to;
  what.token = p.placed->token;
  core_.placing(lane_, p);
  if (!to.place(std::span(p.head).first(p.head_bytes), what)) {
    core_.placed(lane_, what.token);
    return false;
  }
  advance(p.stream_bytes());
  return true;
}

bool lane_writer::fill(core::time_point now) {
  first_ = size_ = 0;
  first_done_bytes_ = 0;
  owned_.clear();
  for (std::size_t bytes = 0; size_ < max_batch_writes && bytes < batch_bytes; ++size_) {
    if (!core_.next(lane_, batch_[size_], now)) break;
    bytes += batch_[size_].head_bytes + batch_[size_].payload.bytes;
  }
  return size_ > 0;
}

void lane_writer::advance(std::size_t bytes) {
  first_done_bytes_ += bytes;
  while (is_busy() && first_done_bytes_ >= batch_[first_].stream_bytes()) {
    first_done_bytes_ -= batch_[first_].stream_bytes();
    core_.written(batch_[first_]);
    ++first_;
  }
}

void lane_writer::copy_payloads() {
  for (std::size_t i = first_; i < size_; ++i) {
    core_.cancel_placement(batch_[i]);
    const_view& payload = batch_[i].payload;
    if (payload.bytes == 0) continue;
    auto copy = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
    std::memcpy(copy.get(), payload.data, payload.bytes);
    payload = const_view(copy.get(), payload.bytes);
    owned_.push_back(std::move(copy));
  }
}

}  // namespace tandem::rails
