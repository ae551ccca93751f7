#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "protocol/incoming_payload.hpp"

namespace tandem::protocol {

/// The order in which chunks of an accepted message arrive: ascending, or any over several rails.
/// All other frames arrive in order either way.
enum class chunk_order : std::uint8_t { ascending, any };

/// A message that the peer has announced, and which of its chunks have arrived.
struct incoming_message {
  enum class state : std::uint8_t { free, announced, accepted };
  std::uint64_t id = 0;
  std::uint64_t total = 0;
  std::uint64_t received = 0;
  call_signature signature = {};
  operation* op = nullptr;  // null: the receive was cancelled, the rest is discarded
  state at = state::free;
  std::uint32_t chunk_bytes = 0;
  operation* granted = nullptr;    // whose view the peer may write to: `op`, or a cancelled receive
  std::vector<bool> arrived = {};  // by chunk, where they arrive in any order

  /// The payload of this data frame may arrive now. In any order means: whole chunks at their
  /// offset, each only once.
  bool may_arrive(const frame& f, chunk_order order) const noexcept;
  void add_arrived(const frame& f, chunk_order order);
  bool is_complete() const noexcept { return received >= total; }
  /// Frees its place, and keeps the memory of `arrived` for the next one.
  void clear() noexcept;

 private:
  /// The first chunk of a data frame, and one past the last. An empty message has one chunk.
  std::pair<std::size_t, std::size_t> chunks_of(const frame& f) const noexcept;
};

/// The announced messages of one end by id, until they are complete, withdrawn or refused: then the
/// owner clears them.
class incoming_messages {
 public:
  /// Null: there is none.
  incoming_message* find(std::uint64_t id) noexcept;
  /// A free place for a message of this id; null where its slot is in use. Other messages may move.
  /// @param open  the payloads that are being received
  incoming_message* allocate(std::uint64_t id, const open_payloads& open);

 private:
  static std::size_t slot_of(std::uint64_t id) noexcept { return id & 0xffff; }
  bool release(incoming_message& message, const open_payloads& open);

  std::vector<incoming_message> by_slot_;
  std::vector<incoming_message> ending_;  // last chunks still arriving, slot already reused
};

}  // namespace tandem::protocol
