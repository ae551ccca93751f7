#pragma once

#include <array>

#include "protocol/session.hpp"
#include "transports/shm/memory.hpp"
#include "transports/shm/offered_buffers.hpp"

namespace tandem::shm {

/// Writes a session's frames into a ring: short payloads with their frame, long ones piece by piece
/// or, where the peer can read this process' memory or has mapped the buffer, as a reference that
/// it reads in one copy. The view behind a reference belongs to the channel until the peer
/// acknowledges that it has read it, or this end has closed, after which the peer discards what it
/// reads.
class frames_out {
 public:
  frames_out(protocol::session& from, const memory& shared, int side, single_copy copies) noexcept
      : session_(from),
        remote_(shared.control(1 - side)),
        ring_(shared.ring(side), remote_.consumed),
        buffers_(shared.control(side), remote_),
        may_refer_(copies != single_copy::off) {}

  /// Sends a short message that has nothing to wait for. True: it is in the ring and complete.
  bool try_send_eager(operation& op);
  /// Writes until the session has no more frames or the ring is full. True if it wrote anything.
  bool write_all();
  /// Completes the references that the peer has read. True if there were any.
  bool take_acknowledgements();
  /// The peer acknowledged or consumed more than was written.
  bool is_broken() const noexcept { return broken_ || ring_.is_broken(); }
  /// A frame or a reference is pending that needs progress of the peer.
  bool awaits_peer() const noexcept { return has_current_ || references_sent_ != references_read_; }
  /// The peer has made progress that this end can use.
  bool can_progress() const noexcept {
    return has_acknowledgements() || (has_current_ && ring_.may_have_room());
  }
  bool may_refer() const noexcept;
  /// Grows with every byte written and every reference read.
  std::uint64_t moved() const noexcept { return ring_.written_bytes() + references_read_; }
  void drop() noexcept;

 private:
  /// In flight at once: enough to keep the peer busy, and few enough that a cancelled send soon
  /// completes.
  static constexpr std::size_t max_references = 64;
  static constexpr std::size_t max_referred_bytes = std::size_t{4} << 20;

  bool has_acknowledgements() const noexcept;
  void choose_method();
  bool write_current();
  bool write_payload(const protocol::frame& f, const void* payload);
  bool has_room_for_reference() const noexcept;

  protocol::session& session_;
  control_block& remote_;
  ring_writer ring_;
  offered_buffers buffers_;
  const bool may_refer_;
  protocol::outgoing_frame current_;  // the frame being written
  bool has_current_ = false;
  transfer_method method_ = transfer_method::first_piece;            // of its payload
  offered_buffers::buffer_location location_;                        // where `method_` is `mapped`
  std::uint64_t done_ = 0;                                           // bytes of its payload
  std::array<protocol::outgoing_frame, max_references> references_;  // ring of those in flight
  std::size_t referred_bytes_ = 0;
  std::uint64_t references_sent_ = 0;  // references written to the ring
  std::uint64_t references_read_ = 0;  // of them acknowledged
  bool broken_ = false;
};

}  // namespace tandem::shm
