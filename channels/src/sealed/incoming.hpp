#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "sealed/record.hpp"

namespace tandem::sealed {

/// Sealed bytes from the network, until they are opened. No I/O. Whatever comes, it holds two
/// records and the text of one at most, and gives out nothing that was not sealed by who has the
/// key.
class incoming {
 public:
  explicit incoming(secret key, std::uint64_t per_key = records_per_key)
      : opener_(std::move(key), per_key) {}

  /// Where the next bytes from the network go; never empty once `open` has given out what it could.
  std::span<std::byte> room() noexcept;
  void came(std::size_t bytes) noexcept { end_ += bytes; }

  /// Opens what is here into `to`, as far as whole records and the space go: right there where a
  /// record fits, by a copy where it alone does not.
  void open(cursor& to);
  /// `open` would do something, given space.
  bool holds_more() const noexcept {
    return plain_begin_ < plain_end_ || (!is_broken_ && whole_record() > 0);
  }
  /// Hostile or damaged bytes came: nothing more is given out. `why`
  bool is_broken() const noexcept { return is_broken_; }
  const std::string& why() const noexcept { return why_; }

 private:
  /// Bytes of the record in front, where it is all here, or can be none; else 0.
  std::size_t whole_record() const noexcept;
  void open_next(std::size_t record_bytes, cursor& to);
  void fail(std::string why);

  opener opener_;
  std::unique_ptr<std::byte[]> wire_ = std::make_unique_for_overwrite<std::byte[]>(wire_room_bytes);
  std::size_t begin_ = 0, end_ = 0;
  std::unique_ptr<std::byte[]> plain_;  // of a record that had to be opened here
  std::size_t plain_begin_ = 0, plain_end_ = 0;
  bool is_broken_ = false;
  std::string why_;
};

}  // namespace tandem::sealed
