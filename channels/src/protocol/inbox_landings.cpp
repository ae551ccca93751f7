// The end of an incoming payload: complete, dropped or failed.
#include <algorithm>
#include <utility>

#include "protocol/inbox.hpp"

namespace tandem::protocol {

/// Many may be open at once, and usually the oldest ends first.
void inbox::forget(landing& where) noexcept {
  const auto at = std::find(landings_.begin(), landings_.end(), &where);
  if (at != landings_.end()) landings_.erase(at);
}

void inbox::drop(landing& where) noexcept {
  forget(where);
}

void inbox::abandon(landing& where) noexcept {
  drop(where);
  if (where.entry == nullptr) return;
  flow_state& flow = *flows_.find(where.header.flow);
  const auto same = [&where](const auto& a) { return a.get() == where.entry; };
  const auto at = std::find_if(flow.arrived.begin(), flow.arrived.end(), same);
  if (static_cast<std::size_t>(at - flow.arrived.begin()) < flow.claimed) --flow.claimed;
  flow.arrived.erase(at);
  unexpected_bytes_ -= where.header.payload_bytes;
}

void inbox::lose(landing& where) {
  forget(where);
  if (where.header.type != frame_type::eager) return;
  if (where.entry != nullptr) where.entry->lost = true;
  if (operation* const op = std::exchange(where.op, nullptr)) {
    end_.finish(*op, errc::message_cancelled);
  }
  end_eager(where);
}

void inbox::end(landing& where) {
  forget(where);
  if (where.header.type == frame_type::eager) {
    end_eager(where);
    return;
  }
  incoming* message = find_incoming(where.header.message_id);
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
  take_back(*message);
  *message = {};
  if (op != nullptr) end_.finish(*op, {});
}

}  // namespace tandem::protocol
