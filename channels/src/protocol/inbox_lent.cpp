// Grants for views that the peer's NICs may write to.
#include <fmt/format.h>

#include <utility>

#include "protocol/inbox.hpp"

namespace tandem::protocol {

/// Grants precede their accept in order, so the peer has all of them or none.
void inbox::lend(operation& op, incoming& message) {
  if (lender_ == nullptr || message.total == 0) return;
  ways_.clear();
  lender_->lend(op, message.total, ways_);
  for (const grant& each : ways_) {
    answer(frame_type::grant, op.flow, message.id);
    frame& f = answers_.back();
    f.flags = each.lane;
    f.rail_epoch = each.epoch;
    f.chunk_index = each.key;
    f.offset = each.address;
  }
  if (!ways_.empty()) message.lent = &op;
}

void inbox::take_back(incoming& message) {
  if (message.lent == nullptr) return;
  operation& op = *std::exchange(message.lent, nullptr);
  lender_->returned(op);
  end_.unpin(op);
}

void inbox::returned(operation& op) {
  incoming* const message = find_incoming(op.tag);
  if (message != nullptr && message->lent == &op) take_back(*message);
}

bool inbox::on_revoked(const frame& f, std::string& why) {
  incoming* const message = find_incoming(f.message_id);
  if (message == nullptr || message->lent == nullptr) return true;  // ended otherwise meanwhile
  if (message->op != nullptr) {
    why = fmt::format("unexpected revoke confirmation of message {:#x}", f.message_id);
    return false;
  }
  take_back(*message);
  return true;
}

}  // namespace tandem::protocol
