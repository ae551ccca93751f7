#include "transports/tcp/frame_writer.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace tandem::tcp {
namespace {

/// Maximum of one batch: the kernel takes no more at once, and later frames may be more urgent.
constexpr std::size_t batch_bytes = std::size_t{1} << 20;
/// A write of slightly more than one loopback packet (64 KiB less headers) reaches the peer only
/// when all of it is copied. In two writes, the peer copies the first part meanwhile: half a
/// ping-pong of 64 KiB takes 17 us instead of 20. Longer ones gain nothing, shorter ones lose.
constexpr std::size_t first_part_bytes = 56 * 1024, min_split_bytes = 64 * 1024,
                      max_split_bytes = 80 * 1024;

/// The parts of the next write.
std::span<const iovec> next_write(std::span<iovec> parts) noexcept {
  std::size_t total = 0;
  for (const iovec& part : parts) total += part.iov_len;
  if (total < min_split_bytes || total > max_split_bytes) return parts;
  std::size_t room = first_part_bytes, count = 0;
  while (parts[count].iov_len < room) room -= parts[count++].iov_len;
  parts[count].iov_len = room;
  return parts.first(count + 1);
}

std::size_t frame_total(const protocol::outgoing_frame& out) noexcept {
  return protocol::frame_bytes + out.payload.bytes;
}

}  // namespace

std::size_t frame_writer::rest_bytes() const noexcept {
  return first_done_bytes_ == 0 ? 0 : frame_total(batch_[first_]) - first_done_bytes_;
}

void frame_writer::append_rest(std::vector<std::byte>& to) const {
  if (first_done_bytes_ == 0) return;
  const std::size_t of_header = std::min(first_done_bytes_, protocol::frame_bytes);
  to.insert(to.end(), headers_[first_].begin() + of_header, headers_[first_].end());
  const const_view payload = batch_[first_].payload;
  const auto* bytes = static_cast<const std::byte*>(payload.data);
  to.insert(to.end(), bytes + (first_done_bytes_ - of_header), bytes + payload.bytes);
}

bool frame_writer::write_all(sealed::stream& to) {
  if (!to.flush()) return false;
  while (is_busy() || fill()) {
    if (!write_batch(to)) return false;
  }
  return to.flush();
}

bool frame_writer::fill() {
  first_ = size_ = 0;
  first_done_bytes_ = 0;
  std::size_t bytes = 0;
  while (size_ < batch_frames && bytes < batch_bytes) {
    protocol::outgoing_frame& out = batch_[size_];
    if (!session_.next(out)) break;
    protocol::encode(out.header, headers_[size_]);
    bytes += frame_total(out);
    ++size_;
  }
  return size_ > 0;
}

bool frame_writer::write_batch(sealed::stream& to) {
  std::array<iovec, 2 * batch_frames> parts;
  while (is_busy()) {
    std::size_t count = 0;
    std::size_t skip = first_done_bytes_;
    for (std::size_t i = first_; i < size_; ++i) {
      const const_view payload = batch_[i].payload;
      if (skip < protocol::frame_bytes) {
        parts[count++] = {headers_[i].data() + skip, protocol::frame_bytes - skip};
        skip = 0;
      } else {
        skip -= protocol::frame_bytes;
      }
      if (payload.bytes > skip) {
        auto* bytes = static_cast<std::byte*>(const_cast<void*>(payload.data));
        parts[count++] = {bytes + skip, payload.bytes - skip};
      }
      skip = 0;
    }
    const ssize_t n = to.send(next_write(std::span(parts).first(count)));
    if (n >= 0) {
      advance(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      // The reader reports socket errors: it knows whether a close frame was received first.
      return false;
    }
  }
  return true;
}

void frame_writer::advance(std::size_t bytes) {
  first_done_bytes_ += bytes;
  while (is_busy() && first_done_bytes_ >= frame_total(batch_[first_])) {
    first_done_bytes_ -= frame_total(batch_[first_]);
    session_.sent(batch_[first_]);
    ++first_;
  }
}

}  // namespace tandem::tcp
