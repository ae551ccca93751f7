#pragma once

#include <tandem/settings.hpp>
#include <utility>

#include "protocol/session.hpp"
#include "transports/shm/mapped_buffers.hpp"
#include "transports/shm/peer_memory.hpp"

namespace tandem::shm {

/// Reads frames from the peer's ring into a session, each payload straight into its view.
class frames_in {
 public:
  enum class outcome : std::uint8_t {
    more,                ///< there may be more
    drained,             ///< nothing more at present
    ended,               ///< the peer's process has exited: `why`
    peer_closed,         ///< the peer has closed: its `close_state` says how
    protocol_violation,  ///< protocol violation: `why`
    close,               ///< the peer closes in an orderly way
    peer_failed,         ///< the peer closes because of an error; the session does not know yet
  };

  /// @param copies  `off`: the peer must not send references.
  frames_in(protocol::session& into, const memory& shared, int side, pid_t peer,
            single_copy copies) noexcept
      : session_(into),
        local_(shared.control(side)),
        remote_(shared.control(1 - side)),
        ring_(shared.ring(1 - side), local_.consumed),
        buffers_(local_, remote_),
        peer_(peer),
        copies_(copies),
        has_probed_(copies == single_copy::off) {}

  /// Reads one record, without blocking. After `peer_closed`, `protocol_violation`, `close` or
  /// `peer_failed`, read no more.
  outcome read_one();
  bool has_record() const noexcept { return ring_.has_record(); }
  /// True once after progress: the peer may be waiting for what was read since the last call.
  bool take_progress() noexcept { return std::exchange(has_progress_, false); }
  /// As soon as the peer has published its probe address, finds out whether its memory can be read,
  /// and publishes the result.
  void probe();
  std::uint64_t received_bytes() const noexcept { return received_bytes_; }
  const std::string& why() const noexcept { return why_; }
  /// Forgets the payload being received, of a session that has failed.
  void drop() noexcept { receiving_payload_ = false; }
  /// The rest of the payload being received will not arrive.
  void abandon_payload() noexcept;

 private:
  outcome take(const ring_reader::view& r);
  outcome take_reference(const ring_reader::view& r);
  int fetch(const ring_reader::view& r) const noexcept;
  outcome take_control_frame(const protocol::frame& f);
  outcome reject(std::string why);
  bool take_eager(const ring_reader::view& r);
  void receive_piece(const ring_reader::view& r);
  void copy(const ring_reader::view& r, std::byte* to) const noexcept;

  protocol::session& session_;
  control_block& local_;
  control_block& remote_;
  ring_reader ring_;
  mapped_buffers buffers_;
  const peer_memory peer_;
  const single_copy copies_;
  protocol::incoming_payload payload_;
  bool receiving_payload_ = false;
  bool has_probed_;
  std::uint64_t references_read_ = 0;  // references read
  std::uint64_t received_bytes_ = 0;
  bool has_progress_ = false;
  std::string why_;
};

}  // namespace tandem::shm
