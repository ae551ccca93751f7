#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transports/rails/envelope.hpp"

namespace tandem::rails {

/// The packets received in one direction: all below `next()` and some of the `max_packets` from
/// there on. Kept by the receiver, and the only authority on what is missing.
class receive_window {
 public:
  enum class status : std::uint8_t { missing, received, beyond };

  std::uint32_t next() const noexcept { return next_; }
  status status_of(std::uint32_t number) const noexcept {
    const std::int32_t distance = ahead(number, next_);
    if (distance < 0) return status::received;
    if (distance >= static_cast<std::int32_t>(max_packets)) return status::beyond;
    return bits_[number % max_packets] ? status::received : status::missing;
  }
  void add(std::uint32_t number) noexcept {
    bits_[number % max_packets] = true;
    if (ahead(number, last_) > 0) last_ = number;
    for (; bits_[next_ % max_packets]; ++next_) bits_[next_ % max_packets] = false;
    if (ahead(next_, last_) > 0) last_ = next_;
  }
  /// Writes the body of a report and returns its length; 0 where nothing is ahead of `next()`.
  std::size_t write(std::span<std::byte, max_body_bytes> body) const noexcept {
    if (last_ == next_) return 0;
    const std::uint32_t bits = last_ - next_ + 1;
    const std::size_t bytes = (bits + 7) / 8;
    for (std::size_t i = 0; i < bytes; ++i) body[i] = std::byte{0};
    for (std::uint32_t i = 0; i < bits; ++i) {
      if (bits_[(next_ + i) % max_packets]) body[i / 8] |= std::byte{1} << (i % 8);
    }
    return bytes;
  }

 private:
  std::bitset<max_packets> bits_;
  std::uint32_t next_ = 0;
  std::uint32_t last_ = 0;  // the highest received, or next_ where none is ahead of it
};

}  // namespace tandem::rails
