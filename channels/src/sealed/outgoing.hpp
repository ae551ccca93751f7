#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "sealed/record.hpp"

namespace tandem::sealed {

/// Bytes on their way out, sealed, until the network has taken them. No I/O.
class outgoing {
 public:
  explicit outgoing(secret key) : sealer_(std::move(key)) {}

  /// Seals as much as there is room for; not before all that was sealed has been `sent`.
  void take(cursor& from);
  /// What the network is to be given next.
  std::span<const std::byte> unsent() const noexcept {
    return {wire_.get() + sent_, size_ - sent_};
  }
  void sent(std::size_t bytes) noexcept { sent_ += bytes; }
  /// How long the next record's text is. Short parts share one; what is long has records of its
  /// own, which the other end opens right where the text belongs.
  static std::size_t next_text(cursor from) noexcept;

 private:
  sealer sealer_;
  std::unique_ptr<std::byte[]> wire_ = std::make_unique_for_overwrite<std::byte[]>(wire_room_bytes);
  std::size_t size_ = 0;
  std::size_t sent_ = 0;
};

}  // namespace tandem::sealed
