#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "transports/rails/dma_tracker.hpp"
#include "transports/rails/lane_shares.hpp"
#include "transports/rails/lane_table.hpp"
#include "transports/rails/memory_registrar.hpp"
#include "transports/rails/reassembly.hpp"
#include "transports/rails/send_window.hpp"

namespace tandem::rails {

/// After how much silence a lane or a peer counts as lost. Five heartbeats are sent within `lost`;
/// half of it makes a lane suspect.
struct timeouts {
  std::chrono::milliseconds lost{500};   ///< of a lane, while another lane of the peer is alive
  std::chrono::milliseconds peer{2000};  ///< of all lanes
  std::chrono::milliseconds heartbeat() const noexcept { return lost / 5; }
  std::chrono::milliseconds suspect() const noexcept { return lost / 2; }
};

/// One write on a lane: a head, then the payload of a packet.
struct lane_write {
  std::array<std::byte, envelope_bytes + max_body_bytes> head;
  std::size_t head_bytes = 0;
  const_view payload;
  packet* of = nullptr;  ///< null for a report or a fence
  /// The NIC writes the payload into the peer's memory, before the peer reads the head.
  struct remote_write {
    std::uint64_t to = 0;
    std::uint32_t remote_key = 0;
    std::uint32_t local_key = 0;
    dma_tracker::token token = 0;
  };
  std::optional<remote_write> placed = {};

  /// Bytes on the lane's stream.
  std::size_t stream_bytes() const noexcept {
    return placed ? head_bytes : head_bytes + payload.bytes;
  }
};

/// One end of a channel over rails, without I/O: a session over many lanes that delivers each
/// message once and in order as long as one lane is up.
///
/// A lost lane is fenced: each end closes it, then reports over any lane that is up which packets
/// it has received, and only then are missing ones sent again. So no byte of the old lane can
/// arrive after its retransmission.
///
/// The caller does the I/O: `next`/`written` to write, `take` or `begin`/`add_received`/`end` to
/// read, `tick` periodically; after each call it closes the lanes for which `must_close` is true
/// and reports that by `lane_lost`.
class core final : private protocol::remote_write_grants {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  core(const protocol::limits& agreed, protocol::identity who,
       std::chrono::steady_clock::duration operation_timeout, std::size_t lanes,
       const timeouts& bounds, bool checksums);

  protocol::session& messages() noexcept { return session_; }
  const protocol::session& messages() const noexcept { return session_; }
  /// Ends every operation. With `send_close`, sends that have completed still go out, and then a
  /// close frame.
  void fail(const error& reason, bool send_close);
  /// The peer has ended every operation: views are returned, so chunks are not sent again.
  void drop_chunks() { send_window_.drop_chunks(); }
  /// The peer has received everything, and nothing is left to send.
  bool is_flushed() const noexcept { return send_window_.empty(); }

  // Lanes.
  /// @param is_standby  a standby lane: carries chunks only while no other lane is up
  /// @param has_integrity  its payloads need no checksums
  void lane_up(std::uint16_t lane, std::uint32_t epoch, time_point now, bool is_standby = false,
               bool has_integrity = false);
  /// The lane is closed: nothing is read from it or written to it any more.
  /// @param is_quiesced  no NIC accesses memory for it either; otherwise the fence is sent, and
  ///   views are returned, only after `lane_quiesced`
  void lane_lost(std::uint16_t lane, bool is_quiesced = true);
  void lane_quiesced(std::uint16_t lane, std::uint32_t epoch);
  bool must_close(std::uint16_t lane) const noexcept { return lanes_.must_close(lane); }
  std::size_t lanes() const noexcept { return lanes_.size(); }
  lane_table::state lane_state(std::uint16_t lane) const noexcept { return lanes_.at(lane); }
  std::uint32_t lane_epoch(std::uint16_t lane) const noexcept { return lanes_.epoch(lane); }
  double measured_bytes_per_s(std::uint16_t lane) const noexcept {
    return shares_.measured_bytes_per_s(lane);
  }
  /// Bytes of packets received completely on a lane, headers included, since the beginning.
  std::uint64_t received_bytes(std::uint16_t lane) const noexcept {
    return traffic_[lane].received_bytes;
  }
  bool is_live(std::uint16_t lane) const noexcept { return lanes_.is_live(lane); }
  /// True where this epoch of a lane is newer than every earlier one, at either end.
  bool accepts_epoch(std::uint16_t lane, std::uint32_t epoch) const noexcept {
    return lanes_.accepts_epoch(lane, epoch);
  }
  std::uint32_t next_epoch(std::uint16_t lane) const noexcept { return lanes_.next_epoch(lane); }
  bool any_live() const noexcept { return lanes_.any_live(); }

  // Writing.
  bool next(std::uint16_t lane, lane_write& out, time_point now);
  void written(const lane_write& p) noexcept;

  // RDMA to and from views.
  /// To be called before any operation starts. Without it, all payloads go over the streams.
  void use_registrar(memory_registrar* who) noexcept;
  /// A NIC starts to read the payload of this write (`placing`), and has read it (`placed`).
  void placing(std::uint16_t lane, const lane_write& p);
  void placed(std::uint16_t lane, dma_tracker::token which);
  /// The payload goes over the stream after all. Nothing is written where it cannot be read.
  void cancel_placement(lane_write& p);
  bool has_active_dma() const noexcept { return !dma_tracker_.empty(); }
  /// The channel is abandoned: no view is returned any more.
  void forget_dma() noexcept { dma_tracker_.clear(); }

  // Reading. False, or violated: a protocol violation ends the channel; see `why`.
  bool take(std::uint16_t lane, const envelope& e, std::span<const std::byte> body, time_point now);
  reassembly::outcome begin(std::uint16_t lane, const envelope& e, const protocol::frame& f,
                            inbound*& into);
  void add_received(inbound& in, std::size_t bytes) noexcept {
    reassembly_.add_received(in, bytes);
  }
  reassembly::ending end(std::uint16_t lane);
  void on_receive(std::uint16_t lane, time_point now) noexcept;
  const std::string& why() const noexcept { return why_.empty() ? reassembly_.why() : why_; }
  bool peer_failed() const noexcept { return reassembly_.peer_failed(); }

  /// Sends heartbeats and checks timeouts; to be called every `timeouts::heartbeat` / 2.
  void tick(time_point now);
  /// Set by `tick`: nothing was received from the peer on any lane for `timeouts::peer`, and its
  /// process has not answered a probe for as long.
  bool peer_is_silent() const noexcept { return peer_silent_; }
  /// Nothing was received for so long that the peer's process is to be probed.
  bool wants_probe(time_point now) const noexcept {
    return received_at_ != time_point{} && now - received_at_ >= bounds_.suspect();
  }
  /// The peer's process has answered that its event loop has not run for so long. If the loop runs
  /// and nothing arrives, the network is at fault: then the answer is no sign of life.
  void peer_answered(time_point at, time_point::duration loop_idle) noexcept {
    time_point& last = loop_idle >= bounds_.suspect() ? answered_at_ : loop_ran_at_;
    last = std::max(last, at);
  }
  /// The peer's loop runs, by an answer within the last `timeouts::peer`, but nothing arrives.
  bool peer_loop_runs(time_point now) const noexcept {
    return loop_ran_at_ > received_at_ && now - loop_ran_at_ < bounds_.peer;
  }
  /// For how long a peer whose process answers has sent nothing; zero: it is not busy.
  time_point::duration peer_busy_for(time_point now) const noexcept {
    return answered_at_ > received_at_ ? now - received_at_ : time_point::duration::zero();
  }

  const send_window& sent() const noexcept { return send_window_; }
  const reassembly& received() const noexcept { return reassembly_; }

 private:
  struct lane_traffic {
    bool report_due = false;
    inbound* incoming = nullptr;
    std::uint64_t received_bytes = 0;
    time_point received_at, wrote_at;
  };

  bool next_fence(lane_write& out);
  bool next_report(std::uint16_t lane, lane_write& out);
  void write_envelope(envelope e, lane_write& out) const;
  bool next_packet(std::uint16_t lane, lane_write& out, time_point now);
  void place(std::uint16_t lane, lane_write& out);
  bool prepare_payload(lane_write& out);
  static void write_frame(lane_write& out);
  void grant_writes(operation& op, std::uint64_t message_bytes,
                    std::vector<protocol::grant>& grants) override;
  bool is_granted(const operation& op) const noexcept override;
  void grants_ended(const operation& op) noexcept override;
  void view_released(operation& op) noexcept override;
  bool on_fenced(const envelope& e, std::span<const std::byte> body);
  bool violated(std::string why);

  protocol::session session_;
  send_window send_window_;
  reassembly reassembly_;
  memory_registrar* registrar_ = nullptr;
  dma_tracker dma_tracker_;
  const timeouts bounds_;
  lane_table lanes_;
  lane_shares shares_;
  std::vector<lane_traffic> traffic_;  // by lane
  std::optional<time_point> ticked_;
  time_point received_at_, answered_at_, loop_ran_at_;
  bool peer_silent_ = false;
  std::string why_;
};

}  // namespace tandem::rails
