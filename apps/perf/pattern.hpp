#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::perf {

/// Which message a pattern belongs to. Two messages that differ in one of these share no word.
struct message_id {
  int rank = 0;             ///< of the sender
  int slot = 0;             ///< place in the window of messages in flight
  std::uint64_t epoch = 0;  ///< of the body; the marks at both ends carry the iteration beside it
};

/// Writes the whole pattern: every 8-byte word depends on the id and its offset, the first and the
/// last also on `iteration`. Cost: one pass over the bytes.
void fill(std::span<std::byte> message, const message_id& id, std::uint64_t iteration);

/// Renews the first and the last word only: makes each message of a timed loop its own for a few
/// nanoseconds.
void mark(std::span<std::byte> message, const message_id& id, std::uint64_t iteration);

/// How many bytes of the first and the last word differ from what `mark` wrote. For use in timed
/// loops.
std::uint64_t wrong_marks(std::span<const std::byte> message, const message_id& id,
                          std::uint64_t iteration);

/// How many bytes of the message differ from what `fill`, or `fill` and then `mark`, wrote.
std::uint64_t wrong_bytes(std::span<const std::byte> message, const message_id& id,
                          std::uint64_t iteration);

/// Overwrites with bytes that no pattern leaves behind, so that a message that never came is seen.
void clear(std::span<std::byte> message);

}  // namespace tandem::perf
