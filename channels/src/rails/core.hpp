#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "rails/departures.hpp"
#include "rails/keeper.hpp"
#include "rails/reception.hpp"
#include "rails/touched.hpp"

namespace tandem::rails {

/// After how much silence a lane or a peer counts as lost. Five heartbeats are sent within `lost`;
/// half of it makes a lane suspect.
struct patience {
  std::chrono::milliseconds lost{500};   ///< of a lane, while another lane of the peer is alive
  std::chrono::milliseconds peer{2000};  ///< of all lanes
  std::chrono::milliseconds heartbeat() const noexcept { return lost / 5; }
  std::chrono::milliseconds suspect() const noexcept { return lost / 2; }
};

/// One write on a lane: a head, then the payload of a packet.
struct piece {
  std::array<std::byte, envelope_bytes + most_body_bytes> head;
  std::size_t head_bytes = 0;
  const_view payload;
  parcel* of = nullptr;  ///< null for a report or a fence
  /// The NIC writes the payload into the peer's memory, before the peer reads the head.
  struct way {
    std::uint64_t to = 0;
    std::uint32_t peer_key = 0;
    std::uint32_t local_key = 0;
    touched::token token = 0;
  };
  std::optional<way> placed = {};

  /// Bytes on the lane's stream.
  std::size_t stream_bytes() const noexcept {
    return placed ? head_bytes : head_bytes + payload.bytes;
  }
};

/// One end of a channel over rails, without I/O: a session over many lanes that delivers each
/// message once and in order as long as one lane is up.
///
/// | lane state | meaning                                            | carries new chunks        |
/// |------------|----------------------------------------------------|---------------------------|
/// | absent     | never connected                                    | no                        |
/// | up         | received from within `timeouts::suspect`           | yes                       |
/// | suspect    | silent for longer                                  | while no other lane is up |
/// | lost       | closed here; a reconnect comes with a higher epoch | no                        |
///
/// A lost lane is fenced: each end closes it, then reports over any lane that is up which packets
/// it has received, and only then are missing ones sent again. So no byte of the old lane can
/// arrive after its retransmission.
///
/// The caller does the I/O: `next`/`written` to write, `take` or `begin`/`add_received`/`end` to
/// read, `tick` periodically; after each call it closes the lanes for which `must_close` is true
/// and reports that by `lane_lost`.
class core final : private protocol::lender {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  enum class state : std::uint8_t { absent, up, suspect, lost };

  core(const protocol::limits& agreed, protocol::identity who,
       std::chrono::steady_clock::duration operation_timeout, std::size_t lanes,
       const patience& bounds, bool checksums);

  protocol::session& messages() noexcept { return session_; }
  const protocol::session& messages() const noexcept { return session_; }
  /// Ends every operation. With `send_close`, sends that have completed still go out, and then a
  /// close frame.
  void fail(const error& reason, bool say_goodbye);
  /// The peer has ended every operation: views are returned, so chunks are not sent again.
  void forget_chunks() { departures_.forget_chunks(); }
  /// The peer has received everything, and nothing is left to send.
  bool is_flushed() const noexcept { return departures_.empty(); }

  // Lanes.
  /// @param stands_by  a standby lane: carries chunks only while no other lane is up
  /// @param has_integrity  its payloads need no checksums
  void lane_up(std::uint16_t lane, std::uint32_t epoch, time_point now, bool stands_by = false,
               bool guarded = false);
  /// The lane is closed: nothing is read from it or written to it any more.
  /// @param is_quiet  no NIC accesses memory for it either; otherwise the fence is sent, and
  ///   views are returned, only after `lane_quiet`
  void lane_lost(std::uint16_t lane, bool is_quiet = true);
  void lane_quiet(std::uint16_t lane, std::uint32_t epoch);
  bool closes(std::uint16_t lane) const noexcept { return lanes_[lane].closing; }
  std::size_t lanes() const noexcept { return lanes_.size(); }
  state lane_state(std::uint16_t lane) const noexcept { return lanes_[lane].at; }
  std::uint32_t lane_epoch(std::uint16_t lane) const noexcept { return lanes_[lane].epoch; }
  double measured_bytes_per_s(std::uint16_t lane) const noexcept {
    return lanes_[lane].bytes_per_s;
  }
  /// Bytes of packets received completely on a lane, headers included, since the beginning.
  std::uint64_t received_bytes(std::uint16_t lane) const noexcept {
    return lanes_[lane].received_bytes;
  }
  bool is_live(std::uint16_t lane) const noexcept;
  /// True where this epoch of a lane is newer than every earlier one, at either end.
  bool may_come(std::uint16_t lane, std::uint32_t epoch) const noexcept;
  std::uint32_t next_epoch(std::uint16_t lane) const noexcept;
  bool any_live() const noexcept;

  // Writing.
  bool next(std::uint16_t lane, piece& out, time_point now);
  void written(const piece& p) noexcept;

  // RDMA to and from views.
  /// To be called before any operation starts. Without it, all payloads go over the streams.
  void kept_by(keeper* who) noexcept;
  /// A NIC starts to read the payload of this write (`placing`), and has read it (`placed`).
  void placing(std::uint16_t lane, const piece& p);
  void placed(std::uint16_t lane, touched::token which);
  /// The payload goes over the stream after all. Nothing is written where it cannot be read.
  void displace(piece& p);
  bool touches_views() const noexcept { return !touched_.empty(); }
  /// The channel is abandoned: no view is returned any more.
  void forget_views() noexcept { touched_.clear(); }

  // Reading. False, or violated: a protocol violation ends the channel; see `why`.
  bool take(std::uint16_t lane, const envelope& e, std::span<const std::byte> body, time_point now);
  reception::outcome begin(std::uint16_t lane, const envelope& e, const protocol::frame& f,
                           inbound*& into);
  void landed(inbound& in, std::size_t bytes) noexcept { reception_.landed(in, bytes); }
  reception::ending end(std::uint16_t lane);
  void heard(std::uint16_t lane, time_point now) noexcept;
  const std::string& why() const noexcept { return why_.empty() ? reception_.why() : why_; }
  bool peer_gave_up() const noexcept { return reception_.peer_gave_up(); }

  /// Sends heartbeats and checks timeouts; to be called every `patience::heartbeat` / 2.
  void tick(time_point now);
  /// Set by `tick`: nothing was received from the peer on any lane for `timeouts::peer`.
  bool peer_is_silent() const noexcept { return peer_silent_; }

  const departures& sent() const noexcept { return departures_; }
  const reception& received() const noexcept { return reception_; }

 private:
  struct lane_record {
    state at = state::absent;
    bool closing = false;
    bool stands_by = false;
    std::uint32_t epoch = 0;
    std::optional<std::uint32_t> closed_epoch;       // up to here, this end reads nothing more
    std::optional<std::uint32_t> peer_closed_epoch;  // up to here, the peer's fence was received
    bool fence_open = false;  // the peer's fence has not been received yet
    bool fence_due = false;   // our own fence is to be sent, or sent again
    int draining = 0;         // lost epochs that are not yet quiesced: the fence waits for them
    bool report_due = false;
    inbound* landing = nullptr;
    std::uint64_t received_bytes = 0;
    time_point heard_at, wrote_at;
    // Rate, measured while something is in flight.
    double bytes_per_s = 0;
    std::uint64_t measured_bytes = 0;
    time_point measured_at;
    std::optional<time_point> passed_over_at;  // no chunk since then, because of its rate
  };

  bool next_fence(piece& out);
  bool next_report(std::uint16_t lane, piece& out);
  void write_envelope(envelope e, piece& out) const;
  bool may_pull(std::uint16_t lane, time_point now);
  static void pass_over(lane_record& l, time_point now) noexcept;
  double rate(std::uint16_t lane, time_point now, double unknown_bytes_per_s) const;
  double mean_rate() const noexcept;
  std::size_t lanes_up() const noexcept;
  bool any_up_but_standing_by() const noexcept;
  void measure(time_point now);
  void place(std::uint16_t lane, piece& out);
  bool carry(piece& out);
  static void write_frame(piece& out);
  void lend(operation& op, std::uint64_t message_bytes,
            std::vector<protocol::grant>& grants) override;
  bool is_lent(const operation& op) const noexcept override;
  void returned(const operation& op) noexcept override;
  void settled(operation& op) noexcept override;
  bool on_fenced(const envelope& e, std::span<const std::byte> body);
  bool violated(std::string why);

  protocol::session session_;
  departures departures_;
  reception reception_;
  keeper* keeper_ = nullptr;
  touched touched_;
  const patience bounds_;
  std::vector<lane_record> lanes_;
  std::optional<time_point> ticked_;
  time_point heard_at_;
  bool peer_silent_ = false;
  std::string why_;
};

std::string_view name(core::state of) noexcept;

}  // namespace tandem::rails
