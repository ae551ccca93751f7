#include "protocol/inbox.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tandem::protocol {
void inbox::post(operation& op) {
  flow_state* flow = flows_.find_or_add(op.flow, limits_.max_flows);
  if (flow == nullptr) return exceeds_flows(op);
  op.move_to(operation::phase::queued);
  unexpected_message* const first = flow->unexpected.front();
  if (first == nullptr) {
    if (closed_) {
      completions_.finish(op, closed_);
    } else {
      flow->posted.push_back(op);
    }
    return;
  }
  if (first->header.type == frame_type::announce) {
    const std::uint64_t id = first->header.message_id;
    flow->unexpected.pop_front(spare_);
    accept(op, *flow, *messages_.find(id));
    return;
  }
  if (!first->complete) {
    op.move_to(operation::phase::moving);
    flow->unexpected.claim_front(op);
    filling_.push_back(op);
    return;
  }
  deliver(op, *first);
  credits_.consume(flow->credits, first->header);
  flow->unexpected.pop_front(spare_);
}

void inbox::probe(operation& op) {
  flow_state* const flow = flows_.find_or_add(op.flow, limits_.max_flows);
  if (flow == nullptr) return exceeds_flows(op);
  op.move_to(operation::phase::queued);
  if (const unexpected_message* const first = flow->unexpected.front()) {
    const frame& f = first->header;
    const bool is_announced = f.type == frame_type::announce;
    pending_probes::complete(op, is_announced ? f.offset : f.payload_bytes, completions_);
  } else if (closed_) {
    completions_.finish(op, closed_);
  } else {
    probes_.add(op);
  }
}

void inbox::exceeds_flows(operation& op) {
  completions_.finish(
      op, errc::limit_exceeded,
      fmt::format("flow {} exceeds the limit max-flows {}", op.flow, limits_.max_flows));
}

void inbox::deliver(operation& op, unexpected_message& from) {
  const std::uint32_t bytes = from.header.payload_bytes;
  unexpected_bytes_ -= bytes;
  if (from.unreadable) {
    completions_.finish(op, errc::message_cancelled);
    return;
  }
  if (op.signature != from.header.signature) {
    mismatched(op, from.header.signature);
    return;
  }
  if (bytes > op.view.bytes) {
    truncated(op, bytes);
    return;
  }
  op.bytes = op.total_bytes = bytes;
  if (bytes > 0 && op.view.kind != memory_kind::host) {
    completions_.fill(op, std::move(from.data), bytes);
  } else if (bytes > 0) {
    std::memcpy(op.view.data, from.data.get(), bytes);
  }
  if (op.at != operation::phase::done) completions_.finish(op, {});
}

void inbox::truncated(operation& op, std::uint64_t message_bytes) {
  op.bytes = 0;
  op.total_bytes = message_bytes;
  completions_.finish(op, errc::message_truncated,
                      fmt::format("a message of {} bytes on flow {} matched a receive of {} bytes",
                                  message_bytes, op.flow, op.view.bytes));
}

void inbox::mismatched(operation& op, const call_signature& signature) {
  op.bytes = 0;
  op.peer_signature = signature;
  completions_.finish(op, errc::call_mismatch, fmt::format(call_mismatch_text, op.flow));
}

void inbox::accept(operation& op, flow_state& flow, incoming_message& message) {
  --flow.announced;
  if (op.signature != message.signature) {
    replies_.refuse(op, message.id, note_mismatch);
    const call_signature sent = message.signature;
    message.clear();
    mismatched(op, sent);
    return;
  }
  if (message.total > op.view.bytes) {
    replies_.refuse(op, message.id, 0);
    const std::uint64_t total = message.total;
    message.clear();
    truncated(op, total);
    return;
  }
  op.tag = message.id;
  grants_.issue(op, message);
  replies_.accept(op.flow, message.id);
  message.at = incoming_message::state::accepted;
  message.op = &op;
  op.total_bytes = message.total;
  op.move_to(operation::phase::moving);
  filling_.push_back(op);
}

void inbox::cancel(operation& op, error_code reason, std::string detail) {
  if (op.at == operation::phase::done) return;
  if (op.what == operation::kind::probe) return completions_.finish(op, reason, std::move(detail));
  payloads_.discard_rest(op);
  if (op.at == operation::phase::moving) {
    if (incoming_message* message = messages_.find(op.tag);
        message != nullptr && message->op == &op) {
      message->op = nullptr;
      grants_.revoke(*message);
    }
    flows_.find(op.flow)->unexpected.cancel_claims(op);
  }
  completions_.finish(op, reason, std::move(detail));
}

bool inbox::on_announce(const frame& f, std::string& why) {
  flow_state* flow = flows_.find_or_add(f.flow, max_incoming_flows());
  if (flow == nullptr || flow->announced == max_announced_per_flow ||
      f.offset > max_message_bytes) {
    why = fmt::format("an announcement beyond the limits on flow {}", f.flow);
    return false;
  }
  const std::uint32_t chunk_bytes = f.chunk_bytes == 0 ? limits_.chunk_bytes : f.chunk_bytes;
  if (chunk_bytes > limits_.chunk_bytes ||
      chunk_bytes < std::min(limits_.piece_bytes, limits_.chunk_bytes)) {
    why = fmt::format("message {:#x} announced with an invalid chunk size, {} bytes", f.message_id,
                      chunk_bytes);
    return false;
  }
  incoming_message* const message = messages_.allocate(f.message_id, payloads_);
  if (message == nullptr) {
    why = fmt::format("message {:#x} announced in a slot that is in use", f.message_id);
    return false;
  }
  message->clear();
  message->id = f.message_id;
  message->total = f.offset;
  message->signature = f.signature;
  message->at = incoming_message::state::announced;
  message->chunk_bytes = chunk_bytes;
  ++flow->announced;
  if (operation* op = flow->posted.pop_front()) {
    accept(*op, *flow, *message);
    return true;
  }
  flow->unexpected.push_announcement(f, spare_);
  probes_.message_came(f.flow, f.offset, completions_);
  return true;
}

bool inbox::on_withdraw(const frame& f, std::string& why) {
  incoming_message* message = messages_.find(f.message_id);
  if (message == nullptr) return true;  // refused meanwhile
  const bool was_accepted = message->at == incoming_message::state::accepted;
  operation* op = message->op;
  flow_state* const flow = flows_.find(f.flow);
  if (flow == nullptr) {
    why = fmt::format("message {:#x} withdrawn on flow {}, which is not its own", f.message_id,
                      f.flow);
    return false;
  }
  grants_.end(*message);
  message->clear();
  if (was_accepted) {
    if (op != nullptr) completions_.finish(*op, errc::message_cancelled);
    return true;
  }
  if (!flow->unexpected.remove_announcement(f.message_id, spare_)) {
    why = fmt::format("message {:#x} withdrawn on flow {}, which is not its own", f.message_id,
                      f.flow);
    return false;
  }
  --flow->announced;
  return true;
}

bool inbox::begin(const frame& f, incoming_payload& where, std::string& why) {
  where = {};
  where.header = f;
  const bool good =
      f.type == frame_type::eager ? begin_eager(f, where, why) : begin_data(f, where, why);
  if (good) payloads_.open(where);
  return good;
}

operation* inbox::match_eager(const frame& f) noexcept {
  flow_state* const flow = flows_.find(f.flow);
  if (flow == nullptr || flow->posted.empty() || !credits_.covers(flow->credits, f)) return nullptr;
  operation* const op = flow->posted.front();
  const bool fits = op->signature == f.signature && f.payload_bytes <= op->view.bytes;
  return fits && op->view.kind == memory_kind::host ? op : nullptr;
}

void inbox::arrived(const frame& f) {
  flow_state& flow = *flows_.find(f.flow);
  operation& op = *flow.posted.pop_front();
  op.bytes = op.total_bytes = f.payload_bytes;
  credits_.charge(flow.credits, f);
  credits_.consume(flow.credits, f);
  completions_.finish(op, {});
}

bool inbox::begin_eager(const frame& f, incoming_payload& where, std::string& why) {
  flow_state* flow = flows_.find_or_add(f.flow, max_incoming_flows());
  if (flow == nullptr || !credits_.covers(flow->credits, f)) {
    why = fmt::format("an eager message of {} bytes beyond the credits of flow {}", f.payload_bytes,
                      f.flow);
    return false;
  }
  credits_.charge(flow->credits, f);
  operation* op = flow->posted.pop_front();
  if (op == nullptr) {
    unexpected_message& entry = flow->unexpected.push_eager(f, spare_);
    where.entry = &entry;
    where.target = entry.data.get();
    unexpected_bytes_ += f.payload_bytes;
    unexpected_peak_ = std::max(unexpected_peak_, unexpected_bytes_);
    probes_.message_came(f.flow, f.payload_bytes, completions_);
    return true;
  }
  if (op->signature != f.signature) {
    mismatched(*op, f.signature);
    return true;
  }
  if (f.payload_bytes > op->view.bytes) {
    truncated(*op, f.payload_bytes);
    return true;
  }
  op->move_to(operation::phase::moving);
  op->total_bytes = f.payload_bytes;
  where.op = op;
  where.target = static_cast<std::byte*>(op->view.data);
  filling_.push_back(*op);
  return true;
}

bool inbox::begin_data(const frame& f, incoming_payload& where, std::string& why) {
  incoming_message* message = messages_.find(f.message_id);
  if (message == nullptr || message->at != incoming_message::state::accepted ||
      !message->may_arrive(f, chunks_)) {
    why = fmt::format("unexpected data of message {:#x} at offset {}", f.message_id, f.offset);
    return false;
  }
  if ((f.flags & direct_placement) != 0 && message->granted == nullptr) {
    why = fmt::format("direct write to message {:#x} without a grant", f.message_id);
    return false;
  }
  where.op = message->op;
  if (message->op != nullptr)
    where.target = static_cast<std::byte*>(message->op->view.data) + f.offset;
  return true;
}

void inbox::end_eager(incoming_payload& where) {
  const frame& f = where.header;
  flow_state& flow = *flows_.find(f.flow);
  if (where.entry == nullptr) {
    if (where.op != nullptr) {
      where.op->bytes = f.payload_bytes;
      completions_.finish(*where.op, {});
    }
    credits_.consume(flow.credits, f);
    return;
  }
  unexpected_message& entry = *where.entry;
  entry.complete = true;
  if (!flow.unexpected.is_claimed(entry)) return;
  // Matched while it was arriving; that receive may have been cancelled since, which consumes the
  // message.
  if (entry.claimed != nullptr) {
    deliver(*entry.claimed, entry);
  } else {
    unexpected_bytes_ -= f.payload_bytes;
  }
  flow.unexpected.remove(entry, spare_);
  credits_.consume(flow.credits, f);
}

std::uint32_t inbox::credit(flow_id id) {
  flow_state* const flow = flows_.find(id);
  return flow != nullptr ? credits_.report(flow->credits) : 0;
}

void inbox::peer_closed(error_code reason) {
  closed_ = reason;
  for_each([this, reason](operation& op) { cancel(op, reason); });
  for (auto& [id, flow] : flows_) flow.unexpected.remove_announcements(spare_);
}

operation* inbox::any() noexcept {
  if (!filling_.empty()) return filling_.front();
  if (operation* const probe = probes_.any()) return probe;
  for (auto& [id, flow] : flows_) {
    if (!flow.posted.empty()) return flow.posted.front();
  }
  return nullptr;
}

// The end of an incoming payload: complete, dropped or failed.

void inbox::abandon(incoming_payload& where) noexcept {
  payloads_.close(where);
  if (where.entry == nullptr) return;
  flows_.find(where.header.flow)->unexpected.remove(*where.entry, spare_);
  unexpected_bytes_ -= where.header.payload_bytes;
}

void inbox::mark_unreadable(incoming_payload& where) {
  payloads_.close(where);
  if (where.header.type != frame_type::eager) return;
  if (where.entry != nullptr) where.entry->unreadable = true;
  if (operation* const op = std::exchange(where.op, nullptr)) {
    completions_.finish(*op, errc::message_cancelled);
  }
  end_eager(where);
}

void inbox::end(incoming_payload& where) {
  payloads_.close(where);
  if (where.header.type == frame_type::eager) {
    end_eager(where);
    return;
  }
  incoming_message* message = messages_.find(where.header.message_id);
  if (message == nullptr) return;  // complete already: the peer sent a part of it twice
  message->add_arrived(where.header, chunks_);
  operation* op = message->op;
  if (op != nullptr) op->bytes = message->received;
  if (!message->is_complete()) return;
  grants_.end(*message);
  message->clear();
  if (op != nullptr) completions_.finish(*op, {});
}

// Grants for views that the peer's NICs may write to.

void inbox::grants_ended(operation& op) {
  incoming_message* const message = messages_.find(op.tag);
  if (message != nullptr && message->granted == &op) grants_.end(*message);
}

bool inbox::on_revoked(const frame& f, std::string& why) {
  incoming_message* const message = messages_.find(f.message_id);
  if (message == nullptr || message->granted == nullptr) return true;  // ended otherwise meanwhile
  if (message->op != nullptr) {
    why = fmt::format("unexpected revoke confirmation of message {:#x}", f.message_id);
    return false;
  }
  grants_.end(*message);
  return true;
}

}  // namespace tandem::protocol
