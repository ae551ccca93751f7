#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "protocol/frame.hpp"

namespace tandem::shm {

/// How the bytes of a frame's payload come.
enum class carriage : std::uint8_t {
  inside = 0,     ///< in the record itself
  behind = 1,     ///< after it, the first piece of the payload
  more = 2,       ///< after it, the next piece of the payload before
  reference = 3,  ///< they lie in the writer's memory, at the address in the record
  mapped = 4,     ///< they lie in a buffer of the writer's that the reader has mapped
};

/// What stands in a ring, in 64 bytes and in this machine's own order; its payload follows, rounded
/// up to 64. `ready` is written last and says that all of it is there; the word of the record after
/// it was zeroed before. So a reader polls one cache line, which is also the one that brings a
/// short message.
struct alignas(64) record {
  static constexpr std::uint32_t is_ready = 0x52444e54;  // "TNDR"
  static constexpr std::size_t inside_bytes = 20;

  std::atomic<std::uint32_t> ready;
  std::uint8_t type;
  std::uint8_t how;
  std::uint16_t flags;
  std::uint32_t flow;
  std::uint32_t credit;
  std::uint64_t message_id;
  std::uint64_t offset;         ///< of an eager message, which has none, its note's call
  std::uint32_t payload_bytes;  ///< of the frame
  std::uint32_t here_bytes;     ///< of it in this record, or behind it
  std::uint32_t history;        ///< of the note; its call is inside where a message is announced
  std::byte inside[inside_bytes];
};
constexpr std::size_t record_bytes = sizeof(record);
static_assert(record_bytes == 64 && std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

/// One piece of a payload: the reader copies it while the writer fills the next one.
constexpr std::size_t piece_bytes = 16 * 1024;
constexpr std::size_t least_ring_bytes = 64 * 1024;
constexpr std::size_t most_ring_bytes = std::size_t{1} << 30;

/// Bytes in shared memory that go round. The writer alone writes them.
struct ring_memory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;  ///< a power of two
};

/// The writing side. `consumed` is the reader's word and believed only within what was written.
class ring_writer {
 public:
  ring_writer(ring_memory over, const std::atomic<std::uint64_t>& consumed) noexcept
      : ring_(over), consumed_(consumed) {}

  /// For a frame with so much payload, in one piece. @pre no more than `piece_bytes`.
  bool has_room_for(std::size_t payload_bytes) noexcept;
  /// A frame without payload, or with a short one. False: no room.
  bool write(const protocol::frame& f, const void* payload);
  /// A frame whose payload stays where it is. False: no room.
  /// @param how    `reference`, and `place` is an address; or `mapped`, and it is an offset
  /// @param where  in which of the buffers that are offered; 0 for a reference
  bool refer(const protocol::frame& f, carriage how, std::uint32_t where, std::uint64_t place);
  /// The payload from `done` on, piece by piece as there is room; the frame with the first piece.
  /// True: all of it is written.
  bool write_pieces(const protocol::frame& f, const std::byte* payload, std::uint64_t& done);
  /// The reader says what cannot be: it consumed more than was written.
  bool is_broken() const noexcept { return broken_; }
  std::uint64_t written_bytes() const noexcept { return tail_; }
  /// The reader has told of more room since the last look.
  bool may_have_room() const noexcept {
    return consumed_.load(std::memory_order_relaxed) != known_consumed_;
  }

 private:
  bool has_room(std::size_t bytes) noexcept;
  record& at(std::uint64_t position) const noexcept;
  void fill(record& to, const protocol::frame& f, carriage how, std::uint32_t here) const noexcept;
  void clear_after(std::size_t bytes) noexcept;
  void publish(record& what, std::size_t bytes) noexcept;

  const ring_memory ring_;
  const std::atomic<std::uint64_t>& consumed_;
  std::uint64_t tail_ = 0;
  std::uint64_t known_consumed_ = 0;
  bool broken_ = false;
};

/// The reading side. Whatever it reads may be a lie and may change while it looks, so a record is
/// copied before it is judged, and no length leads out of the ring.
class ring_reader {
 public:
  ring_reader(ring_memory over, std::atomic<std::uint64_t>& consumed) noexcept
      : ring_(over), consumed_(consumed) {}

  /// A record as it was judged.
  struct view {
    protocol::frame header;
    carriage how = carriage::inside;
    std::uint32_t here_bytes = 0;
    std::byte inside[record::inside_bytes];
    /// Of a payload that stayed where it is: see `ring_writer::refer`.
    std::uint64_t place() const noexcept { return protocol::take<std::uint64_t>(inside); }
    std::uint32_t where() const noexcept {
      return protocol::take<std::uint32_t>(inside + sizeof(std::uint64_t));
    }
  };
  enum class outcome : std::uint8_t { none, some, broken };

  bool has_some() const noexcept { return upcoming().ready.load(std::memory_order_relaxed) != 0; }
  /// The next record, which stays until `consume`; `why` says what is wrong with a broken one.
  outcome next(view& out, std::string& why) const;
  /// The piece behind the record into `to`.
  void copy(const view& of, std::byte* to) const noexcept;
  /// True: the writer was told of the room, and may be waiting for it.
  bool consume(const view& of) noexcept;

 private:
  const record& upcoming() const noexcept {
    return *reinterpret_cast<const record*>(ring_.data + (head_ & (ring_.bytes - 1)));
  }

  const ring_memory ring_;
  std::atomic<std::uint64_t>& consumed_;
  std::uint64_t head_ = 0;
  std::uint64_t told_ = 0;
};

}  // namespace tandem::shm
