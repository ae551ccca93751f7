#pragma once

#include <utility>
#include <vector>

#include "protocol/incoming_messages.hpp"
#include "protocol/outbox.hpp"
#include "protocol/remote_write_grants.hpp"
#include "protocol/reply_queue.hpp"

namespace tandem::protocol {

/// The views of receives that the peer's NICs may write to, from their accept until the peer has
/// written everything or has stopped.
class view_grants {
 public:
  view_grants(completion_sink& completions, reply_queue& replies)
      : completions_(completions), replies_(replies) {}
  /// Null: nothing is granted.
  void set_issuer(remote_write_grants* who) noexcept { issuer_ = who; }

  /// Grants writes of this message to the view of `op`, where possible.
  void issue(operation& op, incoming_message& message) {
    if (issuer_ == nullptr || message.total == 0) return;
    grants_.clear();
    issuer_->grant_writes(op, message.total, grants_);
    for (const grant& each : grants_) replies_.grant_write(op.flow, message.id, each);
    if (!grants_.empty()) message.granted = &op;
  }
  /// The receive is cancelled: its view stays pinned until the peer confirms that it has stopped.
  void revoke(incoming_message& message) {
    if (message.granted == nullptr) return;
    if (issuer_->is_granted(*message.granted)) {
      replies_.revoke(message.granted->flow, message.id);
    } else {
      end(message);
    }
  }
  /// Nothing writes to the view any more.
  void end(incoming_message& message) {
    if (message.granted == nullptr) return;
    operation& op = *std::exchange(message.granted, nullptr);
    issuer_->grants_ended(op);
    completions_.unpin(op);
  }

 private:
  completion_sink& completions_;
  reply_queue& replies_;
  remote_write_grants* issuer_ = nullptr;
  std::vector<grant> grants_;  // of one message; kept for its memory
};

}  // namespace tandem::protocol
