// Grants for views that the peer's NICs may write to.
#include <fmt/format.h>

#include <utility>

#include "protocol/inbox.hpp"

namespace tandem::protocol {

/// Grants precede their accept in order, so the peer has all of them or none.
void inbox::grant_writes(operation& op, incoming_message& message) {
  if (remote_write_grants_ == nullptr || message.total == 0) return;
  grants_.clear();
  remote_write_grants_->grant_writes(op, message.total, grants_);
  for (const grant& each : grants_) {
    answer(frame_type::grant, op.flow, message.id);
    frame& f = answers_.back();
    f.flags = each.lane;
    f.rail_epoch = each.epoch;
    f.chunk_index = each.key;
    f.offset = each.address;
  }
  if (!grants_.empty()) message.granted = &op;
}

void inbox::end_grants(incoming_message& message) {
  if (message.granted == nullptr) return;
  operation& op = *std::exchange(message.granted, nullptr);
  remote_write_grants_->grants_ended(op);
  completions_.unpin(op);
}

void inbox::grants_ended(operation& op) {
  incoming_message* const message = find_incoming(op.tag);
  if (message != nullptr && message->granted == &op) end_grants(*message);
}

bool inbox::on_revoked(const frame& f, std::string& why) {
  incoming_message* const message = find_incoming(f.message_id);
  if (message == nullptr || message->granted == nullptr) return true;  // ended otherwise meanwhile
  if (message->op != nullptr) {
    why = fmt::format("unexpected revoke confirmation of message {:#x}", f.message_id);
    return false;
  }
  end_grants(*message);
  return true;
}

}  // namespace tandem::protocol
