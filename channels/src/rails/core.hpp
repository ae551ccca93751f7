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

/// How long what may be silent. The bounds follow from `lost`: hearts beat five times in it, and
/// half of it makes a lane suspect.
struct patience {
  std::chrono::milliseconds lost{500};   ///< a lane, while another one of the peer is heard
  std::chrono::milliseconds peer{2000};  ///< all lanes
  std::chrono::milliseconds heartbeat() const noexcept { return lost / 5; }
  std::chrono::milliseconds suspect() const noexcept { return lost / 2; }
};

/// One thing to write on a lane: its head, then the payload of a parcel.
struct piece {
  std::array<std::byte, envelope_bytes + most_body_bytes> head;
  std::size_t head_bytes = 0;
  const_view payload;
  parcel* of = nullptr;  ///< null for a report and the like
  /// The payload goes another way than the head: a NIC writes it, before the head is read.
  struct way {
    std::uint64_t to = 0;
    std::uint32_t peer_key = 0;
    std::uint32_t local_key = 0;
    touched::token token = 0;
  };
  std::optional<way> placed = {};

  /// On the lane's stream.
  std::size_t stream_bytes() const noexcept {
    return placed ? head_bytes : head_bytes + payload.bytes;
  }
};

/// One end of a channel of rails without I/O: a session over many lanes, each message once and in
/// order whatever lanes die, as long as one lives.
///
/// A lane that dies is fenced: each end closes it, then tells the other over any lane that is up
/// which parcels have arrived, and only then are missing ones sent again, so that no byte of the
/// old lane can meet its own repetition. A lane that is dialled again comes under a higher epoch.
///
/// Whoever carries it out calls `next`/`written` to write, `take` or `begin`/`landed`/`end` to
/// read, `tick` in time, and after each call closes what `closes` names and reports that by
/// `lane_lost`.
class core final : private protocol::lender {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  enum class state : std::uint8_t { absent, up, suspect, lost };

  core(const protocol::limits& agreed, protocol::identity who,
       std::chrono::steady_clock::duration operation_timeout, std::size_t lanes,
       const patience& bounds, bool checksums);

  protocol::session& messages() noexcept { return session_; }
  const protocol::session& messages() const noexcept { return session_; }
  /// Ends every operation. With a goodbye, what was promised to earlier senders still goes out.
  void fail(const error& reason, bool say_goodbye);
  /// The peer has ended every operation: views are handed back, so chunks are not sent again.
  void forget_chunks() { departures_.forget_chunks(); }
  /// The peer has everything, and nothing more comes from here.
  bool is_flushed() const noexcept { return departures_.empty(); }

  // Lanes, as they come and go.
  /// @param stands_by  it carries parcels only while no lane that does not stand by is up
  /// @param guarded    its payloads need no checksums
  void lane_up(std::uint16_t lane, std::uint32_t epoch, time_point now, bool stands_by = false,
               bool guarded = false);
  /// Not one byte of it is read or written any more.
  /// @param is_quiet  nor touches a NIC memory for its sake; else the peer hears of it, and views
  ///   are given back, only after `lane_quiet`
  void lane_lost(std::uint16_t lane, bool is_quiet = true);
  void lane_quiet(std::uint16_t lane, std::uint32_t epoch);
  bool closes(std::uint16_t lane) const noexcept { return lanes_[lane].closing; }
  std::size_t lanes() const noexcept { return lanes_.size(); }
  state lane_state(std::uint16_t lane) const noexcept { return lanes_[lane].at; }
  std::uint32_t lane_epoch(std::uint16_t lane) const noexcept { return lanes_[lane].epoch; }
  double measured_bytes_per_s(std::uint16_t lane) const noexcept {
    return lanes_[lane].bytes_per_s;
  }
  /// Of parcels that came whole on a lane, headers included, since the beginning.
  std::uint64_t received_bytes(std::uint16_t lane) const noexcept {
    return lanes_[lane].received_bytes;
  }
  bool is_live(std::uint16_t lane) const noexcept;
  /// Is this epoch of a lane newer than all that were, at either end?
  bool may_come(std::uint16_t lane, std::uint32_t epoch) const noexcept;
  std::uint32_t next_epoch(std::uint16_t lane) const noexcept;
  bool any_live() const noexcept;

  // Writing.
  bool next(std::uint16_t lane, piece& out, time_point now);
  void written(const piece& p) noexcept;

  // NICs that touch views.
  /// Before any operation starts. Without, all is carried.
  void kept_by(keeper* who) noexcept;
  /// A NIC begins to read the payload of this piece, and has done so.
  void placing(std::uint16_t lane, const piece& p);
  void placed(std::uint16_t lane, touched::token which);
  /// It will be carried after all; nothing is left of it where its bytes cannot be had.
  void displace(piece& p);
  bool touches_views() const noexcept { return !touched_.empty(); }
  /// Nobody can hear of views any more.
  void forget_views() noexcept { touched_.clear(); }

  // Reading. False, or violated: the channel is at its end; `why`.
  bool take(std::uint16_t lane, const envelope& e, std::span<const std::byte> body, time_point now);
  reception::outcome begin(std::uint16_t lane, const envelope& e, const protocol::frame& f,
                           inbound*& into);
  void landed(inbound& in, std::size_t bytes) noexcept { reception_.landed(in, bytes); }
  reception::ending end(std::uint16_t lane);
  void heard(std::uint16_t lane, time_point now) noexcept;
  const std::string& why() const noexcept { return why_.empty() ? reception_.why() : why_; }
  bool peer_gave_up() const noexcept { return reception_.peer_gave_up(); }

  /// Judges silence, makes hearts beat; to be called again after `patience::heartbeat` / 2.
  void tick(time_point now);
  /// Set by `tick`: nothing was heard of the peer, on any lane, for too long.
  bool peer_is_silent() const noexcept { return peer_silent_; }

  const departures& sent() const noexcept { return departures_; }
  const reception& received() const noexcept { return reception_; }

 private:
  struct lane_record {
    state at = state::absent;
    bool closing = false;
    bool stands_by = false;
    std::uint32_t epoch = 0;
    std::optional<std::uint32_t> closed_epoch;       // up to here, nothing is read here any more
    std::optional<std::uint32_t> peer_closed_epoch;  // nor there; what arrived there is known
    bool fence_open = false;  // the peer has not yet said what arrived before it closed
    bool fence_due = false;   // our own word is to be said, again
    int draining = 0;         // epochs that are lost and not yet quiet: it has to wait
    bool report_due = false;
    inbound* landing = nullptr;
    std::uint64_t received_bytes = 0;
    time_point heard_at, wrote_at;
    // Rate, measured while something is on its way.
    double bytes_per_s = 0;
    std::uint64_t measured_bytes = 0;
    time_point measured_at;
    std::optional<time_point> passed_over_at;  // left out for its rate, and no chunk taken since
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
