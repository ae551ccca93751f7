#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

/// Lanes over RDMA: the processor posts, the NIC moves bytes between registered memory.
namespace tandem::verbs {

/// From here on, views are registered for one message; below it a copy costs less. An estimate.
constexpr std::uint64_t least_registered_bytes = 1 << 20;

/// What one end of a lane can take before it has to say that it took something.
struct room {
  std::uint32_t records = 128;        ///< receives that are posted on the data pair
  std::uint32_t record_bytes = 4096;  ///< of each, with its word
  std::uint32_t chunks = 4;           ///< slots for what is longer
  std::uint32_t chunk_bytes = 1 << 20;
  std::uint32_t words = 16;  ///< receives that are posted on the control pair
  /// Memory that is this long or longer is registered for one message alone; of this end only.
  std::uint64_t registered_bytes = least_registered_bytes;
};
/// Of fewer, every word would be answered by a word.
constexpr std::uint32_t least_words = 4;

/// What one end has taken since the lane began, in totals modulo 2^32: a total, not a difference,
/// so that a word may come late. It leads every record, and goes alone over the control pair where
/// much is owed.
struct word {
  std::uint32_t records = 0;
  std::uint32_t chunks = 0;
  std::uint32_t words = 0;
  std::uint32_t body_bytes = 0;  ///< that follow it in its record

  friend bool operator==(const word&, const word&) = default;
};
constexpr std::size_t word_bytes = 16;
void encode(const word& from, std::span<std::byte, word_bytes> to) noexcept;
word decode(std::span<const std::byte, word_bytes> from) noexcept;

/// Who may send what on one lane, without I/O: nothing is ever sent for which no receive is posted
/// at the other end, so no NIC ever has to say that it is not ready.
///
/// A record takes a receive. A chunk takes a receive and a slot: slots are used one after the other
/// and freed in the same order, for the bytes of a lane have one order.
class credits {
 public:
  credits(const room& mine, const room& theirs) noexcept : mine_(mine), theirs_(theirs) {}

  bool may_send_record() const noexcept { return sent_.records - taken_.records < theirs_.records; }
  bool may_send_chunk() const noexcept {
    return may_send_record() && sent_.chunks - taken_.chunks < theirs_.chunks;
  }
  /// The last receive is for a word that tells of taken words: two ends that both waited for one
  /// would wait for ever.
  bool may_send_word() const noexcept {
    const std::uint32_t places = owes_for_words() ? theirs_.words : theirs_.words - 1;
    return sent_.words - taken_.words < places;
  }
  void record_sent() noexcept { ++sent_.records; }
  /// The peer's slot for it.
  std::uint32_t chunk_sent() noexcept {
    ++sent_.records;
    return sent_.chunks++ % theirs_.chunks;
  }
  void word_sent() noexcept { ++sent_.words; }

  /// False: no correct peer says this.
  bool hear(const word& theirs) noexcept;

  /// A chunk has come into this slot. False: no correct peer writes there now.
  bool chunk_came(std::uint32_t slot) noexcept;
  void record_taken() noexcept { ++took_.records; }
  void chunk_taken() noexcept {
    ++took_.records;
    ++took_.chunks;
  }
  void word_taken() noexcept { ++took_.words; }

  /// The peer may soon have to wait for a word.
  bool owes_word() const noexcept;
  /// What to say now; it counts as said.
  word say() noexcept { return said_ = took_; }

 private:
  bool owes_for_words() const noexcept;

  const room mine_, theirs_;
  word sent_;   // here
  word taken_;  // of that, by the peer
  word took_;   // of the peer's, here
  word said_;
  std::uint32_t chunks_came_ = 0;
};

}  // namespace tandem::verbs
