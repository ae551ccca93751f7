#pragma once

#include <array>

#include "protocol/session.hpp"
#include "shm/memory.hpp"
#include "shm/offered_buffers.hpp"

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
        theirs_(shared.words(1 - side)),
        ring_(shared.ring(side), theirs_.consumed),
        buffers_(shared.words(side), theirs_),
        may_refer_(copies != single_copy::off) {}

  /// Sends a short message that has nothing to wait for. True: it is in the ring and complete.
  bool send_at_once(operation& op);
  /// Writes until the session has no more frames or the ring is full. True if it wrote anything.
  bool write_all();
  /// Completes the references that the peer has read. True if there were any.
  bool take_acknowledgements();
  /// The peer acknowledged or consumed more than was written.
  bool is_broken() const noexcept { return broken_ || ring_.is_broken(); }
  /// A frame or a reference is pending that needs progress of the peer.
  bool waits() const noexcept { return has_one_ || given_ != read_; }
  /// The peer has made progress that this end can use.
  bool may_go_on() const noexcept {
    return has_acknowledgements() || (has_one_ && ring_.may_have_room());
  }
  bool may_refer() const noexcept;
  /// Grows with every byte written and every reference read.
  std::uint64_t moved() const noexcept { return ring_.written_bytes() + read_; }
  void drop() noexcept;

 private:
  /// In flight at once: enough to keep the peer busy, and few enough that a cancelled send soon
  /// completes.
  static constexpr std::size_t most_references = 64;
  static constexpr std::size_t most_referred_bytes = std::size_t{4} << 20;

  bool has_acknowledgements() const noexcept;
  void choose_way();
  bool write_one();
  bool write_payload(const protocol::frame& f, const void* payload);
  bool has_room_for_reference() const noexcept;

  protocol::session& session_;
  end_words& theirs_;
  ring_writer ring_;
  offered_buffers buffers_;
  const bool may_refer_;
  protocol::outgoing one_;  // the frame being written
  bool has_one_ = false;
  carriage way_ = carriage::behind;                             // of its payload
  offered_buffers::spot spot_;                                  // where `method_` is `mapped`
  std::uint64_t done_ = 0;                                      // bytes of its payload
  std::array<protocol::outgoing, most_references> references_;  // ring of those in flight
  std::size_t referred_bytes_ = 0;
  std::uint64_t given_ = 0;  // references written to the ring
  std::uint64_t read_ = 0;   // of them acknowledged
  bool broken_ = false;
};

}  // namespace tandem::shm
