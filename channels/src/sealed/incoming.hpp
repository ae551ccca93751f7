#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "sealed/record.hpp"

namespace tandem::sealed {

/// Receive buffer of sealed bytes from the network, until they are opened. No I/O. Holds at most
/// two records and the plaintext of one, and returns only bytes that were sealed with the key.
class incoming {
 public:
  explicit incoming(secret key, std::uint64_t per_key = records_per_key)
      : opener_(std::move(key), per_key) {}

  /// Where to write the next bytes from the network; never empty after `open` has opened what it
  /// could.
  std::span<std::byte> space() noexcept;
  void received(std::size_t bytes) noexcept { end_ += bytes; }

  /// Opens complete records into `to` as far as it has space: directly where a record fits, by a
  /// copy where the first record does not.
  void open(cursor& to);
  /// True where `open` would make progress, given space.
  bool holds_more() const noexcept {
    return plain_begin_ < plain_end_ || (!is_broken_ && complete_record_bytes() > 0);
  }
  /// Invalid bytes were received: nothing more is returned; see `why`.
  bool is_broken() const noexcept { return is_broken_; }
  const std::string& why() const noexcept { return why_; }

 private:
  /// The length of the first record where it is complete, or where its length is invalid; else 0.
  std::size_t complete_record_bytes() const noexcept;
  void open_next(std::size_t record_bytes, cursor& to);
  void fail(std::string why);

  opener opener_;
  std::unique_ptr<std::byte[]> wire_ =
      std::make_unique_for_overwrite<std::byte[]>(wire_buffer_bytes);
  std::size_t begin_ = 0, end_ = 0;
  std::unique_ptr<std::byte[]> plain_;  // of a record that had to be opened aside
  std::size_t plain_begin_ = 0, plain_end_ = 0;
  bool is_broken_ = false;
  std::string why_;
};

}  // namespace tandem::sealed
