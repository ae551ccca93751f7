// The end of an incoming payload: complete, dropped or failed.
#include <algorithm>
#include <utility>

#include "protocol/inbox.hpp"

namespace tandem::protocol {

/// Many may be open at once, and usually the oldest ends first.
void inbox::forget(incoming_payload& where) noexcept {
  const auto at = std::find(incoming_payloads_.begin(), incoming_payloads_.end(), &where);
  if (at != incoming_payloads_.end()) incoming_payloads_.erase(at);
}

void inbox::drop(incoming_payload& where) noexcept {
  forget(where);
}

void inbox::abandon(incoming_payload& where) noexcept {
  drop(where);
  if (where.entry == nullptr) return;
  flow_state& flow = *flows_.find(where.header.flow);
  const auto same = [&where](const auto& a) { return a.get() == where.entry; };
  const auto at = std::find_if(flow.arrived.begin(), flow.arrived.end(), same);
  if (static_cast<std::size_t>(at - flow.arrived.begin()) < flow.claimed) --flow.claimed;
  flow.arrived.erase(at);
  unexpected_bytes_ -= where.header.payload_bytes;
}

void inbox::mark_unreadable(incoming_payload& where) {
  forget(where);
  if (where.header.type != frame_type::eager) return;
  if (where.entry != nullptr) where.entry->unreadable = true;
  if (operation* const op = std::exchange(where.op, nullptr)) {
    completions_.finish(*op, errc::message_cancelled);
  }
  end_eager(where);
}

void inbox::end(incoming_payload& where) {
  forget(where);
  if (where.header.type == frame_type::eager) {
    end_eager(where);
    return;
  }
  incoming_message* message = find_incoming(where.header.message_id);
  if (message == nullptr) return;  // complete already: the peer sent a part of it twice
  message->received += where.header.payload_bytes;
  if (chunks_ == chunk_order::any) {
    const auto [first, last] = chunks_of(*message, where.header);
    if (last > message->arrived.size()) message->arrived.resize(last);
    for (std::size_t i = first; i < last; ++i) message->arrived[i] = true;
  }
  operation* op = message->op;
  if (op != nullptr) op->bytes = message->received;
  if (message->received < message->total) return;
  end_grants(*message);
  *message = {};
  if (op != nullptr) completions_.finish(*op, {});
}

}  // namespace tandem::protocol
