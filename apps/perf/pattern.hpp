#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::perf {

/// The message to which a pattern belongs. Messages that differ in any field share no word.
struct message_id {
  int rank = 0;             ///< of the sender
  int slot = 0;             ///< index in the window of messages in flight
  std::uint64_t epoch = 0;  ///< of the body; the marks at both ends also encode the iteration
};

/// Writes the whole pattern: every 8-byte word depends on the id and its offset, the first and the
/// last also on `iteration`. Cost: one pass over the bytes.
void fill(std::span<std::byte> message, const message_id& id, std::uint64_t iteration);

/// Rewrites only the first and the last word, which makes each message of a timed loop distinct in
/// a few nanoseconds.
void mark(std::span<std::byte> message, const message_id& id, std::uint64_t iteration);

/// Number of bytes in the first and the last word that differ from what `mark` wrote. For timed
/// loops.
std::uint64_t wrong_marks(std::span<const std::byte> message, const message_id& id,
                          std::uint64_t iteration);

/// Number of bytes of the message that differ from what `fill`, or `fill` and then `mark`, wrote.
std::uint64_t wrong_bytes(std::span<const std::byte> message, const message_id& id,
                          std::uint64_t iteration);

/// Overwrites with bytes that no pattern contains, so that a missing message is detected.
void clear(std::span<std::byte> message);

}  // namespace tandem::perf
