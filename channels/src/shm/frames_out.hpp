#pragma once

#include <array>

#include "protocol/session.hpp"
#include "shm/memory.hpp"
#include "shm/offered_buffers.hpp"

namespace tandem::shm {

/// Frames on their way into a ring: short payloads with their frame, long ones piece by piece or,
/// where the peer can read this process' memory or has mapped this piece of it, as a reference that
/// it reads in one copy. The view behind a reference belongs to the channel until the peer has said
/// that it has read it, or can no longer believe what it reads.
class frames_out {
 public:
  frames_out(protocol::session& from, const memory& shared, int side, single_copy copies) noexcept
      : session_(from),
        theirs_(shared.words(1 - side)),
        ring_(shared.ring(side), theirs_.consumed),
        buffers_(shared.words(side), theirs_),
        may_refer_(copies != single_copy::off) {}

  /// A short message that need not wait for anything: true when it is in the ring and over.
  bool send_at_once(operation& op);
  /// Writes until the session has no more to say or there is no room. True where it wrote anything.
  bool write_all();
  /// Takes note of what the peer has read. True where that was anything.
  bool take_acknowledgements();
  /// The peer has said what cannot be.
  bool is_broken() const noexcept { return broken_ || ring_.is_broken(); }
  /// Something is left that only the peer's progress lets go on.
  bool waits() const noexcept { return has_one_ || given_ != read_; }
  /// The peer's progress has come.
  bool may_go_on() const noexcept {
    return has_acknowledgements() || (has_one_ && ring_.may_have_room());
  }
  bool may_refer() const noexcept;
  /// Grows with whatever moves.
  std::uint64_t moved() const noexcept { return ring_.written_bytes() + read_; }
  void drop() noexcept;

 private:
  /// On their way at once: enough to keep the peer busy, and soon over for a cancelled send.
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
  protocol::outgoing one_;  // the frame in hand
  bool has_one_ = false;
  carriage way_ = carriage::behind;                             // its payload's
  offered_buffers::spot spot_;                                  // where that is `mapped`
  std::uint64_t done_ = 0;                                      // of its payload
  std::array<protocol::outgoing, most_references> references_;  // the last of those given
  std::size_t referred_bytes_ = 0;
  std::uint64_t given_ = 0;  // references to the peer
  std::uint64_t read_ = 0;   // of them read
  bool broken_ = false;
};

}  // namespace tandem::shm
