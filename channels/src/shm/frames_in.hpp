#pragma once

#include <tandem/settings.hpp>
#include <utility>

#include "protocol/session.hpp"
#include "shm/mapped_buffers.hpp"
#include "shm/peer_memory.hpp"

namespace tandem::shm {

/// Frames out of a ring into a session, each payload straight into its view.
class frames_in {
 public:
  enum class outcome : std::uint8_t {
    more,     ///< there may be more
    drained,  ///< nothing more at present
    ended,    ///< the peer is gone: `why`
    parted,   ///< the peer has left, in the way that its words say
    broken,   ///< what no correct peer writes: `why`
    goodbye,  ///< the peer closes in an orderly way
    gave_up,  ///< the peer closes because of an error; the session has not been told
  };

  /// @param copies  `off`: the peer shall refer to nothing.
  frames_in(protocol::session& into, const memory& shared, int side, pid_t peer,
            single_copy copies) noexcept
      : session_(into),
        mine_(shared.words(side)),
        theirs_(shared.words(1 - side)),
        ring_(shared.ring(1 - side), mine_.consumed),
        buffers_(mine_, theirs_),
        peer_(peer),
        copies_(copies),
        has_probed_(copies == single_copy::off) {}

  /// One record, never blocking. After the last four, read no more.
  outcome read_one();
  bool has_some() const noexcept { return ring_.has_some(); }
  /// True once: the peer may be waiting for what was read since.
  bool take_progress() noexcept { return std::exchange(has_progress_, false); }
  /// Finds out, as soon as the peer has introduced itself, whether its memory can be read, and
  /// tells it.
  void probe();
  std::uint64_t received_bytes() const noexcept { return received_bytes_; }
  const std::string& why() const noexcept { return why_; }
  /// Forgets the payload in hand; the session does not know it any more either.
  void drop() noexcept { is_landing_ = false; }
  /// The rest of the payload in hand will not come.
  void abandon_payload() noexcept;

 private:
  outcome take(const ring_reader::view& r);
  outcome take_reference(const ring_reader::view& r);
  int fetch(const ring_reader::view& r) const noexcept;
  outcome take_plain(const protocol::frame& f);
  outcome wrong(std::string why);
  bool take_whole(const ring_reader::view& r);
  void land(const ring_reader::view& r);
  void copy(const ring_reader::view& r, std::byte* to) const noexcept;

  protocol::session& session_;
  end_words& mine_;
  end_words& theirs_;
  ring_reader ring_;
  mapped_buffers buffers_;
  const peer_memory peer_;
  const single_copy copies_;
  protocol::landing landing_;
  bool is_landing_ = false;
  bool has_probed_;
  std::uint64_t read_ = 0;  // references
  std::uint64_t received_bytes_ = 0;
  bool has_progress_ = false;
  std::string why_;
};

}  // namespace tandem::shm
