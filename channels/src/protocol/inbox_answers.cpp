// Replies of the receiving half: answers to announcements, and credits.
#include "protocol/inbox.hpp"

namespace tandem::protocol {

void inbox::consumed(flow_id id, flow_state& flow, std::uint32_t cost) {
  flow.outstanding -= cost;
  outstanding_ -= cost;
  flow.consumed += cost;
  unreported_ += cost;
  if (flow.credit_pending) return;
  flow.credit_pending = true;
  pending_credits_.push_back(id);
}

std::uint32_t inbox::credit(flow_id id) {
  flow_state* const flow = flows_.find(id);
  if (flow == nullptr) return 0;
  unreported_ -= flow->consumed - flow->reported;
  flow->reported = flow->consumed;
  return flow->consumed;
}

bool inbox::next(frame& out) {
  if (!answers_.empty()) {
    out = answers_.front();
    answers_.pop_front();
    return true;
  }
  // All pending credits go out in one write: stopping below the limit would reach it again with the
  // next message.
  reporting_credits_ =
      (reporting_credits_ || unreported_ >= credit_report_bytes()) && !pending_credits_.empty();
  while (reporting_credits_) {
    const flow_id id = pending_credits_.front();
    pending_credits_.pop_front();
    flow_state& flow = *flows_.find(id);
    flow.credit_pending = false;
    reporting_credits_ = !pending_credits_.empty();
    if (flow.consumed == flow.reported) continue;
    out = {};
    out.type = frame_type::credit;
    out.flow = id;
    return true;
  }
  return false;
}

void inbox::answer(frame_type type, flow_id flow, std::uint64_t message_id) {
  frame f;
  f.type = type;
  f.flow = flow;
  f.message_id = message_id;
  answers_.push_back(f);
}

void inbox::refuse(const operation& by, std::uint64_t message_id, std::uint16_t flags) {
  answer(frame_type::refuse, by.flow, message_id);
  answers_.back().flags = flags;
  answers_.back().offset = by.view.bytes;
  answers_.back().signature = by.signature;
}

}  // namespace tandem::protocol
