#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

/// Lanes over RDMA: the CPU posts work requests, the NIC moves bytes between registered memory.
namespace tandem::verbs {

/// Views of at least this size are registered for one message; below it a copy costs less. An
/// estimate.
constexpr std::uint64_t min_registered_bytes = 1 << 20;

/// Receives and slots of one end of a lane: what it accepts before it has to return credits.
struct queue_depths {
  std::uint32_t records = 128;        ///< receives that are posted on the data pair
  std::uint32_t record_bytes = 4096;  ///< of each, with its credit update
  std::uint32_t chunks = 4;           ///< slots for longer payloads
  std::uint32_t chunk_bytes = 1 << 20;
  std::uint32_t updates = 16;  ///< receives that are posted on the control pair
  /// Memory of at least this size is registered for one message alone; for this end only.
  std::uint64_t registered_bytes = min_registered_bytes;
};
/// With fewer receives, every credit update would be answered by one.
constexpr std::uint32_t min_updates = 4;

/// Credits returned: what one end has consumed since the lane began, as totals modulo 2^32. Totals,
/// not differences, so that an update may arrive late. It leads every record, and is sent alone
/// over the control queue pair when many credits are due.
struct credit_update {
  std::uint32_t records = 0;
  std::uint32_t chunks = 0;
  std::uint32_t updates = 0;
  std::uint32_t body_bytes = 0;  ///< that follow it in the record

  friend bool operator==(const credit_update&, const credit_update&) = default;
};
constexpr std::size_t credit_update_bytes = 16;
void encode(const credit_update& from, std::span<std::byte, credit_update_bytes> to) noexcept;
credit_update decode(std::span<const std::byte, credit_update_bytes> from) noexcept;

/// Flow control of one lane, without I/O: nothing is sent unless the peer has posted a receive for
/// it, so that no receiver-not-ready (RNR) NAK occurs.
///
/// A record takes a receive. A chunk takes a receive and a slot. Slots are used and freed in the
/// same order, as the bytes of a lane are ordered.
class credits {
 public:
  credits(const queue_depths& local, const queue_depths& remote) noexcept
      : local_(local), remote_(remote) {}

  bool may_send_record() const noexcept {
    return sent_.records - peer_consumed_.records < remote_.records;
  }
  bool may_send_chunk() const noexcept {
    return may_send_record() && sent_.chunks - peer_consumed_.chunks < remote_.chunks;
  }
  /// The last receive is reserved for an update that returns credits for updates; otherwise both
  /// ends could wait for each other forever.
  bool may_send_update() const noexcept {
    const std::uint32_t receives = update_due_for_updates() ? remote_.updates : remote_.updates - 1;
    return sent_.updates - peer_consumed_.updates < receives;
  }
  void record_sent() noexcept { ++sent_.records; }
  /// @return the slot of the peer to write to
  std::uint32_t chunk_sent() noexcept {
    ++sent_.records;
    return sent_.chunks++ % remote_.chunks;
  }
  void update_sent() noexcept { ++sent_.updates; }

  /// False: a protocol violation.
  bool apply_update(const credit_update& remote) noexcept;

  /// A chunk was received in this slot. False: out of turn, a protocol violation.
  bool chunk_arrived(std::uint32_t slot) noexcept;
  void record_taken() noexcept { ++consumed_.records; }
  void chunk_taken() noexcept {
    ++consumed_.records;
    ++consumed_.chunks;
  }
  void update_taken() noexcept { ++consumed_.updates; }

  /// The peer may soon run out of credits.
  bool update_due() const noexcept;
  /// The update to send now; counts as sent.
  credit_update next_update() noexcept { return reported_ = consumed_; }

 private:
  bool update_due_for_updates() const noexcept;

  const queue_depths local_, remote_;
  credit_update sent_;           // by this end
  credit_update peer_consumed_;  // of that, consumed by the peer
  credit_update consumed_;       // of the peer's, consumed here
  credit_update reported_;
  std::uint32_t chunks_arrived_ = 0;
};

}  // namespace tandem::verbs
