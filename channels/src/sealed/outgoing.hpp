#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "sealed/record.hpp"

namespace tandem::sealed {

/// Send buffer of sealed bytes, until the network has taken them. No I/O.
class outgoing {
 public:
  explicit outgoing(secret key) : sealer_(std::move(key)) {}

  /// Seals as much as fits. @pre all that was sealed before has been `sent`
  void take(cursor& from);
  /// The bytes to write to the network next.
  std::span<const std::byte> unsent() const noexcept {
    return {wire_.get() + sent_, size_ - sent_};
  }
  void sent(std::size_t bytes) noexcept { sent_ += bytes; }
  /// The plaintext length of the next record. Short parts share a record; a long part has records
  /// of its own, which the other end opens directly at the final address.
  static std::size_t next_text(cursor from) noexcept;

 private:
  sealer sealer_;
  std::unique_ptr<std::byte[]> wire_ =
      std::make_unique_for_overwrite<std::byte[]>(wire_buffer_bytes);
  std::size_t size_ = 0;
  std::size_t sent_ = 0;
};

}  // namespace tandem::sealed
