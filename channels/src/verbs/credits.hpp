#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

/// Lanes over RDMA: the CPU posts work requests, the NIC moves bytes between registered memory.
namespace tandem::verbs {

/// Views of at least this size are registered for one message; below it a copy costs less. An
/// estimate.
constexpr std::uint64_t least_registered_bytes = 1 << 20;

/// Receives and slots of one end of a lane: what it accepts before it has to return credits.
struct room {
  std::uint32_t records = 128;        ///< receives that are posted on the data pair
  std::uint32_t record_bytes = 4096;  ///< of each, with its credit update
  std::uint32_t chunks = 4;           ///< slots for longer payloads
  std::uint32_t chunk_bytes = 1 << 20;
  std::uint32_t words = 16;  ///< receives that are posted on the control pair
  /// Memory of at least this size is registered for one message alone; for this end only.
  std::uint64_t registered_bytes = least_registered_bytes;
};
/// With fewer receives, every credit update would be answered by one.
constexpr std::uint32_t least_words = 4;

/// Credits returned: what one end has consumed since the lane began, as totals modulo 2^32. Totals,
/// not differences, so that an update may arrive late. It leads every record, and is sent alone
/// over the control queue pair when many credits are due.
struct word {
  std::uint32_t records = 0;
  std::uint32_t chunks = 0;
  std::uint32_t words = 0;
  std::uint32_t body_bytes = 0;  ///< that follow it in the record

  friend bool operator==(const word&, const word&) = default;
};
constexpr std::size_t word_bytes = 16;
void encode(const word& from, std::span<std::byte, word_bytes> to) noexcept;
word decode(std::span<const std::byte, word_bytes> from) noexcept;

/// Flow control of one lane, without I/O: nothing is sent unless the peer has posted a receive for
/// it, so that no receiver-not-ready (RNR) NAK occurs.
///
/// A record takes a receive. A chunk takes a receive and a slot. Slots are used and freed in the
/// same order, as the bytes of a lane are ordered.
class credits {
 public:
  credits(const room& mine, const room& theirs) noexcept : mine_(mine), theirs_(theirs) {}

  bool may_send_record() const noexcept { return sent_.records - taken_.records < theirs_.records; }
  bool may_send_chunk() const noexcept {
    return may_send_record() && sent_.chunks - taken_.chunks < theirs_.chunks;
  }
  /// The last receive is reserved for an update that returns credits for updates; otherwise both
  /// ends could wait for each other forever.
  bool may_send_word() const noexcept {
    const std::uint32_t places = owes_for_words() ? theirs_.words : theirs_.words - 1;
    return sent_.words - taken_.words < places;
  }
  void record_sent() noexcept { ++sent_.records; }
  /// @return the slot of the peer to write to
  std::uint32_t chunk_sent() noexcept {
    ++sent_.records;
    return sent_.chunks++ % theirs_.chunks;
  }
  void word_sent() noexcept { ++sent_.words; }

  /// False: a protocol violation.
  bool hear(const word& theirs) noexcept;

  /// A chunk was received in this slot. False: out of turn, a protocol violation.
  bool chunk_came(std::uint32_t slot) noexcept;
  void record_taken() noexcept { ++took_.records; }
  void chunk_taken() noexcept {
    ++took_.records;
    ++took_.chunks;
  }
  void word_taken() noexcept { ++took_.words; }

  /// The peer may soon run out of credits.
  bool owes_word() const noexcept;
  /// The update to send now; counts as sent.
  word say() noexcept { return said_ = took_; }

 private:
  bool owes_for_words() const noexcept;

  const room mine_, theirs_;
  word sent_;   // by this end
  word taken_;  // of that, consumed by the peer
  word took_;   // of the peer's, consumed here
  word said_;
  std::uint32_t chunks_came_ = 0;
};

}  // namespace tandem::verbs
