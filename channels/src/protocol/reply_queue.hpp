#pragma once

#include "protocol/frame.hpp"
#include "protocol/remote_write_grants.hpp"
#include "protocol/stable_queue.hpp"

namespace tandem::protocol {

/// The receiver's replies to announcements that are still to be sent, in order.
class reply_queue {
 public:
  bool empty() const noexcept { return frames_.empty(); }
  /// False: there is none.
  bool pop(frame& out) {
    if (frames_.empty()) return false;
    out = frames_.front();
    frames_.pop_front();
    return true;
  }

  void accept(flow_id flow, std::uint64_t message_id) { add(frame_type::accept, flow, message_id); }
  void revoke(flow_id flow, std::uint64_t message_id) { add(frame_type::revoke, flow, message_id); }
  void refuse(const operation& by, std::uint64_t message_id, std::uint16_t flags) {
    frame& f = add(frame_type::refuse, by.flow, message_id);
    f.flags = flags;
    f.offset = by.view.bytes;
    f.signature = by.signature;
  }
  /// Grants precede their accept in order, so the peer has all of them or none.
  void grant_write(flow_id flow, std::uint64_t message_id, const grant& which) {
    frame& f = add(frame_type::grant, flow, message_id);
    f.flags = which.lane;
    f.rail_epoch = which.epoch;
    f.chunk_index = which.key;
    f.offset = which.address;
  }

 private:
  frame& add(frame_type type, flow_id flow, std::uint64_t message_id) {
    frame& f = frames_.emplace_back();
    f.type = type;
    f.flow = flow;
    f.message_id = message_id;
    return f;
  }

  stable_queue<frame> frames_;
};

}  // namespace tandem::protocol
