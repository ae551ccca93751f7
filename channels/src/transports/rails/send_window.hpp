#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "protocol/copy_pool.hpp"
#include "protocol/session.hpp"
#include "protocol/stable_queue.hpp"
#include "transports/rails/envelope.hpp"
#include "transports/rails/memory_registrar.hpp"

namespace tandem::rails {

/// A frame of the session and the number under which it is sent until the peer has received it.
struct packet {
  enum class state : std::uint8_t {
    free,
    writing,    ///< given to a lane, not yet written completely
    in_flight,  ///< written, not yet reported as received
    orphan,     ///< its lane is lost; the peer's fence has not been received yet
    waiting,    ///< not received: to be sent again on any lane
  };
  protocol::outgoing_frame out;
  std::uint32_t number = 0;
  std::uint32_t order = 0;
  std::uint32_t epoch = 0;
  std::uint16_t lane = 0;
  state at = state::free;
  /// Copy of an eager message, whose view has been returned, or of memory the CPU cannot access.
  std::unique_ptr<std::byte[]> copy;
  bool is_unreadable = false;  ///< its payload could not be read: it is never sent

  /// A chunk whose view was returned: it cannot be sent again.
  bool is_void() const noexcept {
    return out.header.type == protocol::frame_type::data && out.op == nullptr;
  }
  std::uint64_t bytes() const noexcept {
    return envelope_bytes + protocol::frame_bytes + out.payload.bytes;
  }
  /// The payload as it is written to a lane.
  const_view payload_view() const noexcept {
    return copy ? const_view(copy.get(), out.payload.bytes) : out.payload;
  }
};

/// The sending half of a channel over rails, without I/O: numbers the frames of the session, tracks
/// on which lane each is in flight, and sends again on other lanes what a lost lane dropped.
class send_window {
 public:
  /// @param checksums  of payloads, on lanes without an integrity check of their own
  send_window(protocol::session& from, std::size_t lanes, bool checksums)
      : session_(from),
        checksums_(lanes, checksums),
        checksums_enabled_(checksums),
        in_flight_bytes_(lanes),
        arrived_(lanes) {}

  /// To be called before anything is sent.
  void use_registrar(memory_registrar* who) noexcept { registrar_ = who; }
  /// The next packet for a lane, retransmissions first. Null: nothing to send, or the window is
  /// full.
  packet* next(std::uint16_t lane, std::uint32_t epoch);
  /// Copies the payload to memory that a stream can send, where needed. False: it cannot be read.
  bool prepare_payload(packet& p);
  void written(packet& p) noexcept;

  /// Processes the peer's report of received packets. False: a protocol violation.
  bool on_report(std::uint32_t arrived, std::span<const std::byte> body);
  /// Whether payloads of this lane go without checksums from now on.
  void lane_integrity(std::uint16_t lane, bool has_integrity) {
    checksums_[lane] = checksums_enabled_ && !has_integrity;
  }
  /// This lane is lost, up to this epoch.
  void lane_lost(std::uint16_t lane, std::uint32_t epoch);
  /// The peer's fence was received: missing packets are sent again.
  void lane_fenced(std::uint16_t lane, std::uint32_t epoch);

  /// The session has failed: its views are returned, so chunks are not sent again.
  void drop_chunks();
  /// This chunk goes over a stream after all, though it was to be written by RDMA.
  void cancel_placement(packet& p);
  /// Sent after all frames of the session.
  void send_last(const protocol::frame& close_frame) { close_frame_ = close_frame; }

  std::uint64_t in_flight_bytes(std::uint16_t lane) const noexcept {
    return in_flight_bytes_[lane];
  }
  /// Bytes of a lane that the peer has reported as received, since the beginning.
  std::uint64_t acknowledged_bytes(std::uint16_t lane) const noexcept { return arrived_[lane]; }
  /// The peer has received everything.
  bool empty() const noexcept { return packets_.empty() && !close_frame_; }
  std::uint64_t resent_packets() const noexcept { return resent_; }

 private:
  packet* resend(std::uint16_t lane, std::uint32_t epoch);
  packet* next_new(std::uint16_t lane, std::uint32_t epoch);
  /// @pre `number` is in [`lowest_`, `upcoming_`)
  packet& at(std::uint32_t number) noexcept { return packets_[number - lowest_]; }
  bool has_arrived(std::uint32_t number);
  void pop_acknowledged() noexcept;
  void retain_payload(packet& p);
  void copy_payload(packet& p);
  void add_checksum(packet& p) const noexcept;
  void release(packet& p);
  void wait(packet& p);

  protocol::session& session_;
  memory_registrar* registrar_ = nullptr;
  std::vector<bool> checksums_;  // by lane
  const bool checksums_enabled_;
  protocol::copy_pool copies_;
  protocol::stable_queue<packet> packets_;                // from lowest_ on
  std::vector<std::uint64_t> in_flight_bytes_, arrived_;  // bytes, by lane
  std::optional<protocol::frame> close_frame_;
  std::deque<std::uint32_t> waiting_;
  std::uint32_t lowest_ = 0;    // the oldest not reported as received
  std::uint32_t upcoming_ = 0;  // the next number
  std::uint32_t last_order_ = 0;
  std::uint64_t resent_ = 0;
};

}  // namespace tandem::rails
