#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "protocol/frame.hpp"

namespace tandem::shm {

/// How the bytes of a frame's payload are transferred.
enum class transfer_method : std::uint8_t {
  inline_data = 0,  ///< inline in the record
  first_piece = 1,  ///< after the record: the first piece of the payload
  more = 2,         ///< after the record: the next piece of the payload in progress
  reference = 3,    ///< read from the writer's memory, at the address in the record
  mapped = 4,       ///< read from a buffer of the writer that the reader has mapped
};

/// One entry of a ring: 64 bytes in host byte order; its payload follows, rounded up to 64. `ready`
/// is written last and publishes the record; the `ready` word of the next record is zeroed before.
/// So a reader polls one cache line, the one that also carries a short message.
struct alignas(64) record {
  static constexpr std::uint32_t is_ready = 0x52444e54;  // "TNDR"
  static constexpr std::size_t inline_bytes = 20;

  std::atomic<std::uint32_t> ready;
  std::uint8_t type;
  std::uint8_t how;
  std::uint16_t flags;
  std::uint32_t flow;
  std::uint32_t credit;
  std::uint64_t message_id;
  std::uint64_t offset;         ///< of data; an eager message has its note's call here
  std::uint32_t payload_bytes;  ///< of the whole frame
  std::uint32_t here_bytes;     ///< of them in this record, or after it
  std::uint32_t history;        ///< of the note; the note's call is inline in an announce
  std::byte inline_data[inline_bytes];
};
constexpr std::size_t record_bytes = sizeof(record);
static_assert(record_bytes == 64 && std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

/// One piece of a payload: the reader copies it while the writer writes the next one.
constexpr std::size_t piece_bytes = 16 * 1024;
constexpr std::size_t min_ring_bytes = 64 * 1024;
constexpr std::size_t max_ring_bytes = std::size_t{1} << 30;

/// The bytes of a ring buffer in shared memory. Only the writer stores to them.
struct ring_memory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;  ///< a power of two
};

/// The writing side. `consumed` is written by the reader and checked against what was written.
class ring_writer {
 public:
  ring_writer(ring_memory over, const std::atomic<std::uint64_t>& consumed) noexcept
      : ring_(over), consumed_(consumed) {}

  /// For a frame with a payload in one piece. @pre payload_bytes <= `piece_bytes`
  bool has_room_for(std::size_t payload_bytes) noexcept;
  /// Writes a frame without payload, or with an inline one. False: no room.
  bool write(const protocol::frame& f, const void* payload);
  /// Writes a frame whose payload stays where it is. False: no room.
  /// @param how    `reference`: `address_or_offset` is an address; `mapped`: an offset
  /// @param slot   of the offered buffer; 0 for a reference
  bool write_reference(const protocol::frame& f, transfer_method how, std::uint32_t slot,
                       std::uint64_t address_or_offset);
  /// Writes the payload from `done` on, piece by piece as there is room; the frame goes with the
  /// first piece. True: all of it is written.
  bool write_pieces(const protocol::frame& f, const std::byte* payload, std::uint64_t& done);
  /// The reader claims to have consumed more than was written.
  bool is_broken() const noexcept { return broken_; }
  std::uint64_t written_bytes() const noexcept { return tail_; }
  /// The reader has freed room since `consumed` was last read.
  bool may_have_room() const noexcept {
    return consumed_.load(std::memory_order_relaxed) != known_consumed_;
  }

 private:
  bool has_room(std::size_t bytes) noexcept;
  record& at(std::uint64_t position) const noexcept;
  void fill(record& to, const protocol::frame& f, transfer_method how,
            std::uint32_t here) const noexcept;
  void clear_after(std::size_t bytes) noexcept;
  void publish(record& what, std::size_t bytes) noexcept;

  const ring_memory ring_;
  const std::atomic<std::uint64_t>& consumed_;
  std::uint64_t tail_ = 0;
  std::uint64_t known_consumed_ = 0;
  bool broken_ = false;
};

/// The reading side. The writer is not trusted and may change a record while it is read, so a
/// record is copied before it is validated, and lengths are bounded by the ring.
class ring_reader {
 public:
  ring_reader(ring_memory over, std::atomic<std::uint64_t>& consumed) noexcept
      : ring_(over), consumed_(consumed) {}

  /// A validated copy of a record.
  struct view {
    protocol::frame header;
    transfer_method how = transfer_method::inline_data;
    std::uint32_t here_bytes = 0;
    std::byte inline_data[record::inline_bytes];
    /// Of a payload that is not in the ring: see `ring_writer::write_reference`.
    std::uint64_t address_or_offset() const noexcept {
      return protocol::take<std::uint64_t>(inline_data);
    }
    std::uint32_t slot() const noexcept {
      return protocol::take<std::uint32_t>(inline_data + sizeof(std::uint64_t));
    }
  };
  enum class outcome : std::uint8_t { none, some, protocol_violation };

  bool has_record() const noexcept {
    return next_record().ready.load(std::memory_order_relaxed) != 0;
  }
  /// The next record, which stays until `consume`; `why` says what is wrong with an invalid one.
  outcome next(view& out, std::string& why) const;
  /// Copies the piece after the record to `to`.
  void copy(const view& of, std::byte* to) const noexcept;
  /// Frees the record. True: the room was published, and the writer may be waiting for it.
  bool consume(const view& of) noexcept;

 private:
  const record& next_record() const noexcept {
    return *reinterpret_cast<const record*>(ring_.data + (head_ & (ring_.bytes - 1)));
  }

  const ring_memory ring_;
  std::atomic<std::uint64_t>& consumed_;
  std::uint64_t head_ = 0;
  std::uint64_t published_ = 0;
};

}  // namespace tandem::shm
