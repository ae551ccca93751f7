#include "protocol/inbox.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tandem::protocol {
namespace {

std::uint32_t cost_of(const frame& f) noexcept {
  return f.payload_bytes + eager_overhead_bytes;
}

}  // namespace

void inbox::post(operation& op) {
  flow_state* flow = flows_.find_or_add(op.flow, limits_.max_flows);
  if (flow == nullptr) {
    completions_.finish(
        op, errc::limit_exceeded,
        fmt::format("flow {} exceeds the limit max-flows {}", op.flow, limits_.max_flows));
    return;
  }
  op.move_to(operation::phase::queued);
  if (flow->arrived.size() == flow->claimed) {
    if (closed_) {
      completions_.finish(op, closed_);
    } else {
      flow->posted.push_back(op);
    }
    return;
  }
  const auto at = flow->arrived.begin() + static_cast<std::ptrdiff_t>(flow->claimed);
  unexpected_message& first = **at;
  if (first.header.type == frame_type::announce) {
    const std::uint64_t id = first.header.message_id;
    flow->arrived.erase(at);
    accept(op, *flow, *find_incoming(id));
    return;
  }
  if (!first.complete) {
    op.move_to(operation::phase::moving);
    first.claimed = &op;
    filling_.push_back(op);
    ++flow->claimed;
    return;
  }
  deliver(op, first);
  const std::uint32_t cost = cost_of(first.header);
  flow->arrived.erase(at);
  consumed(op.flow, *flow, cost);
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
    refuse(op, message.id, note_mismatch);
    const call_signature sent = message.signature;
    message = {};
    mismatched(op, sent);
    return;
  }
  if (message.total > op.view.bytes) {
    refuse(op, message.id, 0);
    const std::uint64_t total = message.total;
    message = {};
    truncated(op, total);
    return;
  }
  op.tag = message.id;
  grant_writes(op, message);
  answer(frame_type::accept, op.flow, message.id);
  message.at = incoming_message::state::accepted;
  message.op = &op;
  op.total_bytes = message.total;
  op.move_to(operation::phase::moving);
  filling_.push_back(op);
}

void inbox::cancel(operation& op, error_code reason, std::string detail) {
  if (op.at == operation::phase::done) return;
  for (incoming_payload* l : incoming_payloads_) {
    if (l->op != &op) continue;
    l->op = nullptr;
    l->target = nullptr;
  }
  if (op.at == operation::phase::moving) {
    if (incoming_message* message = find_incoming(op.tag);
        message != nullptr && message->op == &op) {
      message->op = nullptr;
      if (message->granted != nullptr) {
        if (remote_write_grants_->is_granted(op)) {
          answer(frame_type::revoke, op.flow, message->id);
        } else {
          end_grants(*message);
        }
      }
    }
    for (auto& entry : flows_.find(op.flow)->arrived) {
      if (entry->claimed == &op) entry->claimed = nullptr;
    }
  }
  completions_.finish(op, reason, std::move(detail));
}

bool inbox::on_announce(const frame& f, std::string& why) {
  flow_state* flow = flows_.find_or_add(f.flow, max_incoming_flows());
  const std::size_t slot = f.message_id & 0xffff;
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
  if (slot >= incoming_messages_.size()) incoming_messages_.resize(slot + 1);
  incoming_message& message = incoming_messages_[slot];
  if (message.at != incoming_message::state::free && !release_slot(message)) {
    why = fmt::format("message {:#x} announced in a slot that is in use", f.message_id);
    return false;
  }
  message = {f.message_id, f.offset, 0, f.signature, nullptr, incoming_message::state::announced,
             chunk_bytes};
  ++flow->announced;
  if (operation* op = flow->posted.pop_front()) {
    accept(*op, *flow, message);
    return true;
  }
  flow->arrived.push_back(
      std::make_unique<unexpected_message>(unexpected_message{f, nullptr, nullptr, true}));
  return true;
}

bool inbox::on_withdraw(const frame& f, std::string& why) {
  incoming_message* message = find_incoming(f.message_id);
  if (message == nullptr) return true;  // refused meanwhile
  const bool was_accepted = message->at == incoming_message::state::accepted;
  operation* op = message->op;
  flow_state* const flow = flows_.find(f.flow);
  if (flow == nullptr) {
    why = fmt::format("message {:#x} withdrawn on flow {}, which is not its own", f.message_id,
                      f.flow);
    return false;
  }
  end_grants(*message);
  *message = {};
  if (was_accepted) {
    if (op != nullptr) completions_.finish(*op, errc::message_cancelled);
    return true;
  }
  const auto same = [&f](const auto& a) { return a->header.message_id == f.message_id; };
  const auto entry = std::find_if(flow->arrived.begin(), flow->arrived.end(), same);
  if (entry == flow->arrived.end()) {
    why = fmt::format("message {:#x} withdrawn on flow {}, which is not its own", f.message_id,
                      f.flow);
    return false;
  }
  flow->arrived.erase(entry);
  --flow->announced;
  return true;
}

bool inbox::begin(const frame& f, incoming_payload& where, std::string& why) {
  where = {};
  where.header = f;
  const bool good =
      f.type == frame_type::eager ? begin_eager(f, where, why) : begin_data(f, where, why);
  if (good) incoming_payloads_.push_back(&where);
  return good;
}

bool inbox::has_credit(const flow_state& flow, const frame& f) const noexcept {
  return f.payload_bytes <= limits_.eager_bytes &&
         flow.outstanding + cost_of(f) <= limits_.flow_credit_bytes() &&
         outstanding_ + cost_of(f) <= limits_.credit_bytes;
}

operation* inbox::match_eager(const frame& f) noexcept {
  flow_state* const flow = flows_.find(f.flow);
  if (flow == nullptr || flow->posted.empty() || !has_credit(*flow, f)) return nullptr;
  operation* const op = flow->posted.front();
  const bool fits = op->signature == f.signature && f.payload_bytes <= op->view.bytes;
  return fits && op->view.kind == memory_kind::host ? op : nullptr;
}

void inbox::arrived(const frame& f) {
  flow_state& flow = *flows_.find(f.flow);
  operation& op = *flow.posted.pop_front();
  op.bytes = op.total_bytes = f.payload_bytes;
  flow.outstanding += cost_of(f);
  outstanding_ += cost_of(f);
  consumed(f.flow, flow, cost_of(f));
  completions_.finish(op, {});
}

bool inbox::begin_eager(const frame& f, incoming_payload& where, std::string& why) {
  flow_state* flow = flows_.find_or_add(f.flow, max_incoming_flows());
  if (flow == nullptr || !has_credit(*flow, f)) {
    why = fmt::format("an eager message of {} bytes beyond the credits of flow {}", f.payload_bytes,
                      f.flow);
    return false;
  }
  flow->outstanding += cost_of(f);
  outstanding_ += cost_of(f);
  operation* op = flow->posted.pop_front();
  if (op == nullptr) {
    auto entry = std::make_unique<unexpected_message>();
    entry->header = f;
    entry->data = std::make_unique_for_overwrite<std::byte[]>(f.payload_bytes);
    where.entry = entry.get();
    where.target = entry->data.get();
    flow->arrived.push_back(std::move(entry));
    unexpected_bytes_ += f.payload_bytes;
    unexpected_peak_ = std::max(unexpected_peak_, unexpected_bytes_);
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
  incoming_message* message = find_incoming(f.message_id);
  if (message == nullptr || message->at != incoming_message::state::accepted ||
      !is_next(*message, f)) {
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

/// In any order means: whole chunks at their offset, each only once.
bool inbox::is_next(const incoming_message& message, const frame& f) const {
  if (f.offset > message.total || f.payload_bytes > message.total - f.offset ||
      (f.payload_bytes == 0 && message.total > 0)) {
    return false;
  }
  if (chunks_ == chunk_order::ascending) return f.offset == message.received;
  const bool is_whole =
      f.offset % message.chunk_bytes == 0 &&
      (f.payload_bytes % message.chunk_bytes == 0 || f.offset + f.payload_bytes == message.total);
  if (!is_whole) return false;
  const auto [first, last] = chunks_of(message, f);
  for (std::size_t i = first; i < std::min(last, message.arrived.size()); ++i) {
    if (message.arrived[i]) return false;
  }
  return true;
}

std::pair<std::size_t, std::size_t> inbox::chunks_of(const incoming_message& message,
                                                     const frame& f) noexcept {
  const std::size_t first = f.offset / message.chunk_bytes;
  const std::size_t count = (f.payload_bytes + message.chunk_bytes - 1) / message.chunk_bytes;
  return {first, first + std::max<std::size_t>(count, 1)};
}

void inbox::end_eager(incoming_payload& where) {
  const frame& f = where.header;
  flow_state& flow = *flows_.find(f.flow);
  if (where.entry == nullptr) {
    if (where.op != nullptr) {
      where.op->bytes = f.payload_bytes;
      completions_.finish(*where.op, {});
    }
    consumed(f.flow, flow, cost_of(f));
    return;
  }
  where.entry->complete = true;
  const auto same = [&where](const auto& a) { return a.get() == where.entry; };
  const auto at = std::find_if(flow.arrived.begin(), flow.arrived.end(), same);
  if (static_cast<std::size_t>(at - flow.arrived.begin()) >= flow.claimed) return;
  // Matched while it was arriving; that receive may have been cancelled since, which consumes the
  // message.
  if ((*at)->claimed != nullptr) {
    deliver(*(*at)->claimed, **at);
  } else {
    unexpected_bytes_ -= f.payload_bytes;
  }
  flow.arrived.erase(at);
  --flow.claimed;
  consumed(f.flow, flow, cost_of(f));
}

void inbox::peer_closed(error_code reason) {
  closed_ = reason;
  for_each([this, reason](operation& op) { cancel(op, reason); });
  for (auto& [id, flow] : flows_) {
    std::erase_if(flow.arrived,
                  [](const auto& a) { return a->header.type == frame_type::announce; });
  }
}

operation* inbox::any() noexcept {
  if (!filling_.empty()) return filling_.front();
  for (auto& [id, flow] : flows_) {
    if (!flow.posted.empty()) return flow.posted.front();
  }
  return nullptr;
}

void inbox::drop_payloads() noexcept {
  for (incoming_payload* l : incoming_payloads_) *l = {};
  incoming_payloads_.clear();
}

inbox::incoming_message* inbox::find_incoming(std::uint64_t id) noexcept {
  const std::size_t slot = id & 0xffff;
  const auto is_it = [id](const incoming_message& each) {
    return each.at != incoming_message::state::free && each.id == id;
  };
  if (slot < incoming_messages_.size() && is_it(incoming_messages_[slot]))
    return &incoming_messages_[slot];
  const auto found = std::find_if(ending_.begin(), ending_.end(), is_it);
  return found != ending_.end() ? &*found : nullptr;
}

/// Where payloads arrive later than their frames, a sender may reuse the slot of a message whose
/// last chunks are still arriving here. False: some chunks have not begun to arrive.
bool inbox::release_slot(incoming_message& message) {
  std::uint64_t coming = message.received;
  for (const incoming_payload* l : incoming_payloads_) {
    if (l->header.message_id == message.id) coming += l->header.payload_bytes;
  }
  if (message.at != incoming_message::state::accepted || coming != message.total) return false;
  std::erase_if(ending_,
                [](const incoming_message& e) { return e.at == incoming_message::state::free; });
  ending_.push_back(std::exchange(message, {}));
  return true;
}

}  // namespace tandem::protocol
