#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "protocol/session.hpp"

namespace tandem::test {

/// An operation for protocol tests, with its own buffer.
struct scripted : operation {
  scripted(kind k, flow_id f, std::string content) : bytes_of(std::move(content)) {
    what = k;
    flow = f;
    view = mutable_view(bytes_of.data(), bytes_of.size());
  }
  std::string received() const { return bytes_of.substr(0, bytes); }

  std::string bytes_of;
  std::string got;  ///< kept where `bytes_of` is overwritten at completion
};

/// A frame in flight with its payload.
struct packet {
  protocol::frame header;
  std::string payload;
};

/// Two sessions and the wire between them; nothing moves but step by step.
class session_pair {
 public:
  explicit session_pair(const protocol::limits& limits)
      : ends{std::make_unique<protocol::session>(limits, protocol::identity{0, 1, "wire"}, minute),
             std::make_unique<protocol::session>(limits, protocol::identity{1, 0, "wire"},
                                                 minute)} {}

  protocol::session& end(int side) { return *ends[side]; }

  /// Starts an operation, and removes it from the completed ones, as these tests look at the
  /// operation itself.
  void start(int side, operation& op) {
    end(side).start(op);
    end(side).take_if_done(op);
  }
  void forget_done(int side) {
    while (end(side).pop_done() != nullptr) {
    }
  }

  /// The fast path: sends the message at once and completes it, if nothing is queued before it.
  bool send_at_once(int side, operation& op) {
    packet p;
    if (!end(side).try_send_eager(op, p.header)) return false;
    p.payload.assign(static_cast<const char*>(op.view.data), op.view.bytes);
    on_wire[side].push_back(std::move(p));
    return true;
  }
  /// Delivers the oldest frame in flight in one step, if it is a short message for a posted
  /// receive.
  bool deliver_at_once(int from) {
    protocol::session& to = end(1 - from);
    const packet& p = on_wire[from].front();
    if (p.header.type != protocol::frame_type::eager) return false;
    const operation* const op = to.match_eager(p.header);
    if (op == nullptr) return false;
    std::memcpy(op->view.data, p.payload.data(), p.payload.size());
    to.arrived(p.header);
    on_wire[from].pop_front();
    forget_done(1 - from);
    return true;
  }

  /// Sends the next frame of `side`, complete; null if there is none.
  const packet* write(int side) {
    protocol::outgoing_frame out;
    if (!end(side).next(out)) return nullptr;
    packet p{out.header, {}};
    if (out.payload.bytes > 0) {
      p.payload.assign(static_cast<const char*>(out.payload.data), out.payload.bytes);
    }
    end(side).sent(out);
    forget_done(side);
    on_wire[side].push_back(std::move(p));
    return &on_wire[side].back();
  }
  /// Delivers the oldest frame in flight, complete. False: a violation.
  bool deliver(int from) {
    const packet p = std::move(on_wire[from].front());
    on_wire[from].pop_front();
    const bool good = deliver(from, p);
    forget_done(1 - from);
    return good;
  }
  bool deliver(int from, const packet& p) {
    protocol::session& to = end(1 - from);
    if (!protocol::carries_payload(p.header.type)) return to.handle(p.header);
    protocol::incoming_payload where;
    if (!to.begin(p.header, where)) return false;
    if (where.target != nullptr) std::memcpy(where.target, p.payload.data(), p.payload.size());
    to.end(where);
    return true;
  }

  /// Moves everything both ways until there is nothing to send.
  void deliver_all() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (const int side : {0, 1}) {
        while (write(side) != nullptr) moved = true;
        while (!on_wire[side].empty()) {
          EXPECT_TRUE(deliver(side)) << end(1 - side).violation();
          moved = true;
        }
      }
    }
  }

  static constexpr std::chrono::minutes minute{1};
  std::unique_ptr<protocol::session> ends[2];
  std::deque<packet> on_wire[2];
};

}  // namespace tandem::test
