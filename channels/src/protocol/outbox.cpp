#include "protocol/outbox.hpp"

#include <fmt/format.h>

#include <boost/asio/error.hpp>

namespace tandem::protocol {
namespace {

// Tags of operations that have no slot.
constexpr std::uint64_t fresh = ~std::uint64_t{0};
constexpr std::uint64_t resumed =
    fresh - 1;  // was blocked: older than all blocked ones of its flow

/// Slots are 16 bits of a message id.
constexpr std::size_t max_slots = std::size_t{1} << 16;
/// After this many starts a chunk is sent: a steady stream of short messages must not starve a long
/// one.
constexpr int starts_per_chunk = 8;

/// An empty message has one chunk, too.
std::uint32_t count_chunks(std::uint64_t message_bytes, std::uint64_t chunk_bytes) noexcept {
  const std::uint64_t count = (message_bytes + chunk_bytes - 1) / chunk_bytes;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(count, 1));
}

std::uint32_t cost_of(const operation& op) noexcept {
  return static_cast<std::uint32_t>(op.view.bytes) + eager_overhead_bytes;
}

}  // namespace

void outbox::post(operation& op) {
  flow_state* const flow = flows_.find_or_add(op.flow, limits_.max_flows);
  if (flow == nullptr) {
    completions_.finish(
        op, errc::limit_exceeded,
        fmt::format("flow {} exceeds the limit max-flows {}", op.flow, limits_.max_flows));
    return;
  }
  op.total_bytes = op.view.bytes;
  if (op.view.bytes > max_message_bytes) {
    completions_.finish(op, errc::limit_exceeded,
                        fmt::format("a message of {} bytes exceeds a channel's maximum of {}",
                                    op.view.bytes, max_message_bytes));
    return;
  }
  op.move_to(operation::phase::queued);
  op.tag = fresh;
  // Also where operations of its flow are blocked: older ones in starts_ may still join them.
  starts_.push_back(op);
}

bool outbox::may_be_eager(const operation& op, const flow_state& flow) const noexcept {
  if (op.view.bytes > limits_.eager_bytes) return false;
  const std::uint32_t cost = cost_of(op);
  return flow.sent_cost - flow.credited + cost <= limits_.flow_credit_bytes() &&
         outstanding_ + cost <= limits_.credit_bytes;
}

void outbox::start_eager(const operation& op, flow_state& flow, frame& header) noexcept {
  header.type = frame_type::eager;
  header.flow = op.flow;
  header.signature = op.signature;
  header.message_id = ++number_ << 16;
  header.payload_bytes = static_cast<std::uint32_t>(op.view.bytes);
  flow.sent_cost += cost_of(op);
  outstanding_ += cost_of(op);
}

bool outbox::try_send_eager(operation& op, frame& header) {
  if (may_have_next()) return false;
  flow_state* const flow = flows_.find_or_add(op.flow, limits_.max_flows);
  if (flow == nullptr || !flow->waiting.empty() || !may_be_eager(op, *flow)) return false;
  start_eager(op, *flow, header);
  return true;
}

bool outbox::start(operation& op, outgoing_frame& out) {
  flow_state& flow = *flows_.find(op.flow);
  operation_list::unlink(op);
  if (op.tag == fresh && !flow.waiting.empty()) {
    flow.waiting.push_back(op);
    return false;
  }
  out.header = {};
  out.header.flow = op.flow;
  out.header.signature = op.signature;
  const bool is_eager = may_be_eager(op, flow);
  if (!is_eager && flow.announced == max_announced_per_flow) {
    op.tag = fresh;
    flow.waiting.push_front(op);
    flow.resuming = false;
    return false;
  }
  if (op.tag == resumed) resume_next(flow);
  op.tag = fresh;
  if (is_eager) {
    start_eager(op, flow, out.header);
    out.payload = op.view;
    out.op = &op;
    op.move_to(operation::phase::moving);
    writing_.push_back(op);
    return true;
  }
  const std::size_t index = take_slot();
  slot& s = slots_[index];
  s.op = &op;
  s.flow = &flow;
  s.id = ++number_ << 16 | index;
  s.chunk_bytes = chunk_bytes_for(limits_, op.view.bytes, lanes_);
  s.chunks_left = count_chunks(op.view.bytes, s.chunk_bytes);
  out.header.type = frame_type::announce;
  out.header.message_id = s.id;
  out.header.offset = op.view.bytes;
  if (s.chunk_bytes != limits_.chunk_bytes) out.header.chunk_bytes = s.chunk_bytes;
  out.payload = {};
  out.op = nullptr;
  op.move_to(operation::phase::announced);
  op.tag = s.id;
  ++flow.announced;
  announced_.push_back(op);
  return true;
}

bool outbox::next(outgoing_frame& out) {
  if (!withdrawals_.empty()) {
    out = {withdrawals_.front(), {}, nullptr};
    withdrawals_.pop_front();
    return true;
  }
  if (starts_in_row_ >= starts_per_chunk && next_round_robin(out)) return true;
  while (!starts_.empty() && (!free_slots_.empty() || slots_.size() < max_slots)) {
    if (!start(*starts_.front(), out)) continue;
    ++starts_in_row_;
    return true;
  }
  return next_round_robin(out);
}

bool outbox::next_round_robin(outgoing_frame& out) {
  starts_in_row_ = 0;
  while (!round_robin_.empty()) {
    flow_state& flow = *round_robin_.front();
    round_robin_.pop_front();
    slot* const s = take_accepted(flow);
    if (s == nullptr) continue;
    next_chunk(*s, out);
    if (s->chunks_left == 0) flow.accepted.erase(flow.accepted.begin());
    if (!flow.accepted.empty()) round_robin_.push_back(&flow);
    return true;
  }
  return false;
}

/// The message of the flow that is sent next, without those before it that are over. Null: none,
/// and `accepted` is empty.
outbox::slot* outbox::take_accepted(flow_state& flow) noexcept {
  while (!flow.accepted.empty()) {
    slot* const s = find_slot(flow.accepted.front());
    if (s != nullptr && !s->cancelled) return s;
    flow.accepted.erase(flow.accepted.begin());
  }
  return nullptr;
}

void outbox::coalesce_chunks(outgoing_frame& out, std::uint64_t max_bytes) {
  const std::uint64_t before = out.header.payload_bytes;
  slot* const s = find_slot(out.header.message_id);
  const bool may_take_more = out.header.type == frame_type::data && s != nullptr && !s->cancelled &&
                             s->chunks_left > 0 && before < max_bytes;
  if (!may_take_more) return;
  const std::uint64_t left = s->op->view.bytes - s->given;
  const std::uint64_t room = max_bytes - before;
  const std::uint64_t chunks = room >= left ? s->chunks_left : room / s->chunk_bytes;
  const std::uint64_t bytes = std::min(left, chunks * s->chunk_bytes);
  s->given += bytes;
  s->chunks_left -= static_cast<std::uint32_t>(chunks);
  accepted_left_ -= bytes;
  if (s->chunks_left == 0) {
    std::erase(s->flow->accepted, s->id);
    if (s->flow->accepted.empty()) round_robin_.remove(s->flow);
  }
  out.header.payload_bytes = static_cast<std::uint32_t>(before + bytes);
  out.payload = const_view(s->op->view).part(out.header.offset, before + bytes);
}

std::uint32_t outbox::upcoming_chunk_bytes() noexcept {
  const slot* const s =
      round_robin_.empty() ? nullptr : find_slot(round_robin_.front()->accepted.front());
  return s == nullptr ? limits_.chunk_bytes : s->chunk_bytes;
}

void outbox::next_chunk(slot& from, outgoing_frame& out) {
  const std::uint64_t total = from.op->view.bytes;
  const std::uint64_t bytes = std::min<std::uint64_t>(from.chunk_bytes, total - from.given);
  const std::uint32_t count = count_chunks(total, from.chunk_bytes);
  out.header = {};
  out.header.type = frame_type::data;
  out.header.flow = from.op->flow;
  out.header.message_id = from.id;
  out.header.chunk_count = count;
  out.header.chunk_index = count - from.chunks_left;
  out.header.offset = from.given;
  out.header.payload_bytes = static_cast<std::uint32_t>(bytes);
  out.payload = const_view(from.op->view).part(from.given, bytes);
  out.op = from.op;
  from.given += bytes;
  accepted_left_ -= bytes;
  ++from.in_flight;
  --from.chunks_left;
}

void outbox::sent(const outgoing_frame& out) {
  if (out.header.type == frame_type::eager) {
    out.op->bytes = out.op->view.bytes;
    completions_.finish(*out.op, {});
    return;
  }
  if (out.header.type != frame_type::data) return;
  slot* s = find_slot(out.header.message_id);
  if (s == nullptr) return;
  if ((out.header.flags & direct_placement) != 0) placement_ended(out.header);
  --s->in_flight;
  s->op->bytes += out.header.payload_bytes;
  if (s->cancelled && s->in_flight == 0 && (s->chunks_left > 0 || s->payload_failed)) {
    withdraw(*s, s->cancelled);
  } else if (s->chunks_left == 0 && s->in_flight == 0) {
    operation& op = *s->op;
    free_slot(*s);
    completions_.finish(op, {});
  }
}

void outbox::payload_failed(const outgoing_frame& out, error_code why, std::string detail) {
  if (out.header.type == frame_type::eager) {
    completions_.finish(*out.op, why, std::move(detail));
    return;
  }
  slot* s = find_slot(out.header.message_id);
  if (s == nullptr) return;
  --s->in_flight;
  s->cancelled = why;
  s->payload_failed = true;
  s->detail = std::move(detail);
  if (s->in_flight == 0) withdraw(*s, why);
}

void outbox::cancel(operation& op, error_code reason) {
  switch (op.at) {
    case operation::phase::queued: {
      const bool was_resumed = op.tag == resumed;
      completions_.finish(op, reason);
      if (was_resumed) resume_next(*flows_.find(op.flow));
      return;
    }
    case operation::phase::announced:
      withdraw(*find_slot(op.tag), reason);
      return;
    case operation::phase::moving: {
      slot* s = find_slot(op.tag);
      // A half-written eager frame must be completed, or the byte stream could not continue.
      if (s == nullptr || s->op != &op) return;
      if (!s->payload_failed) s->cancelled = reason;
      if (s->in_flight == 0) withdraw(*s, reason);
      return;
    }
    default:
      return;
  }
}

void outbox::finish_all(error_code reason) {
  for_each([this, reason](operation& op) { completions_.finish(op, reason); });
  accepted_left_ = 0;
  slots_.clear();
  free_slots_.clear();
  round_robin_.clear();
  for (auto& [id, flow] : flows_) flow.accepted.clear();
  withdrawals_.clear();
}

operation* outbox::any() noexcept {
  for (operation_list* list : {&starts_, &writing_, &announced_, &moving_}) {
    if (!list->empty()) return list->front();
  }
  for (auto& [id, flow] : flows_) {
    if (!flow.waiting.empty()) return flow.waiting.front();
  }
  return nullptr;
}

void outbox::withdraw(slot& s, error_code reason) {
  frame f;
  f.type = frame_type::withdraw;
  f.flow = s.op->flow;
  f.message_id = s.id;
  withdrawals_.push_back(f);
  operation& op = *s.op;
  flow_state& flow = *s.flow;
  const bool was_open = !s.accepted;
  std::string detail = std::move(s.detail);
  free_slot(s);
  completions_.finish(op, reason, std::move(detail));
  if (was_open) announcement_over(flow);
}

bool outbox::on_accept(const frame& f) {
  slot* s = find_slot(f.message_id);
  if (s == nullptr) return f.message_id >> 16 <= number_;  // withdrawn meanwhile
  if (s->accepted) return false;
  s->accepted = true;
  s->op->move_to(operation::phase::moving);
  operation_list::unlink(*s->op);
  moving_.push_back(*s->op);
  if (s->flow->accepted.empty()) round_robin_.push_back(s->flow);
  s->flow->accepted.push_back(s->id);
  accepted_left_ += s->op->view.bytes;
  announcement_over(*s->flow);
  return true;
}

bool outbox::on_refuse(const frame& f) {
  slot* s = find_slot(f.message_id);
  if (s == nullptr) return f.message_id >> 16 <= number_;
  if (s->accepted) return false;
  operation& op = *s->op;
  flow_state& flow = *s->flow;
  free_slot(*s);
  if ((f.flags & note_mismatch) != 0) {
    op.peer_signature = f.signature;
    completions_.finish(op, errc::call_mismatch, fmt::format(call_mismatch_text, op.flow));
    announcement_over(flow);
    return true;
  }
  completions_.finish(op, errc::message_truncated,
                      fmt::format("a message of {} bytes on flow {} matched a receive of {} bytes",
                                  op.view.bytes, op.flow, f.offset));
  announcement_over(flow);
  return true;
}

bool outbox::on_credit(flow_id id, std::uint32_t consumed_total) {
  flow_state* const flow = flows_.find(id);
  if (flow == nullptr) return consumed_total == 0;
  const std::uint32_t newly = consumed_total - flow->credited;
  if (newly > flow->sent_cost - flow->credited) return false;
  flow->credited = consumed_total;
  outstanding_ -= newly;
  return true;
}

void outbox::announcement_over(flow_state& flow) {
  --flow.announced;
  if (!flow.resuming) resume_next(flow);
}

/// The oldest blocked operation precedes every queued start of its flow; the next one follows when
/// it has started.
void outbox::resume_next(flow_state& flow) {
  operation* op = flow.waiting.pop_front();
  flow.resuming = op != nullptr;
  if (op == nullptr) return;
  op->tag = resumed;
  starts_.push_front(*op);
}

outbox::slot* outbox::find_slot(std::uint64_t id) noexcept {
  const std::size_t index = id & 0xffff;
  if (index >= slots_.size() || slots_[index].op == nullptr || slots_[index].id != id)
    return nullptr;
  return &slots_[index];
}

std::size_t outbox::take_slot() {
  if (free_slots_.empty()) {
    slots_.emplace_back();
    return slots_.size() - 1;
  }
  const std::size_t index = free_slots_.back();
  free_slots_.pop_back();
  return index;
}

void outbox::free_slot(slot& s) noexcept {
  const auto index = static_cast<std::size_t>(&s - slots_.data());
  if (s.accepted) accepted_left_ -= s.op->view.bytes - s.given;
  std::vector<grant> grants = std::move(s.grants);  // for their memory
  grants.clear();
  s = {};
  s.grants = std::move(grants);
  free_slots_.push_back(index);
}

}  // namespace tandem::protocol
