#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tandem/detail/cipher.hpp>
#include <tandem/secret.hpp>

#include "sealed/cursor.hpp"

namespace tandem::sealed {

/// Sealed data travels in records:
///
///    0 bytes of text u32, little endian, 1 to 65536
///    4 the ciphertext (AES-256-GCM)
///      tag 16
///
/// The nonce of a record is its number, counted by both ends and never sent, combined with a secret
/// mask as in TLS 1.3 (RFC 8446, 5.3): a record that is missing, replayed or reordered does not
/// open. The tag covers the length of the text, and nothing else is in the clear. After
/// `records_per_key` records both ends change to the next key, derived from the previous one, which
/// is erased: 2^20 records are at most 2^32 blocks, for which the distinguishing advantage against
/// GCM is at most 2^-65 (2^64 pairs of blocks among 2^129).
constexpr std::size_t length_bytes = 4;
constexpr std::size_t max_text_bytes = 64 * 1024;
constexpr std::size_t overhead_bytes = length_bytes + trust::cipher::tag_bytes;
constexpr std::size_t max_record_bytes = max_text_bytes + overhead_bytes;
/// Buffer of one direction of a connection: two long records and the short ones around them, small
/// enough to stay in the cache. Four would be 5 % faster over loopback.
constexpr std::size_t wire_buffer_bytes = 2 * max_record_bytes + 1024;
constexpr std::uint64_t records_per_key = std::uint64_t{1} << 20;

/// The key and nonce of each record of one direction.
class sequence {
 public:
  sequence(secret first, trust::cipher::direction which, std::uint64_t per_key);
  /// The cipher, ready for the next record.
  trust::cipher& next();

 private:
  secret key_;  // the cipher's key and the next of these keys are derived from it
  trust::cipher cipher_;
  trust::cipher::nonce mask_{};
  std::uint64_t number_ = 0;  // under this key
  const std::uint64_t per_key_;
};

/// Makes records, without I/O.
class sealer {
 public:
  explicit sealer(secret key, std::uint64_t per_key = records_per_key);
  /// Seals the next `bytes`, 1 to `max_text_bytes`, as one record, which is `overhead_bytes`
  /// longer.
  void seal(cursor& from, std::size_t bytes, std::byte* to);

 private:
  sequence sequence_;
};

/// Opens records in the order in which they were made, without I/O.
class opener {
 public:
  explicit opener(secret key, std::uint64_t per_key = records_per_key);
  /// The text length of a record that begins with these bytes. 0: no valid record.
  static std::size_t text_bytes(const std::byte* length) noexcept;
  /// Writes the text of a complete record. False, with zeros instead of the text, where it is not
  /// the next record sealed with this key; from then on no record opens.
  bool open(std::span<const std::byte> record, cursor& to);

 private:
  sequence sequence_;
  bool broken_ = false;
};

}  // namespace tandem::sealed
