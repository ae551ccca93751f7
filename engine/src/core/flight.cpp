#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/detail/flight.hpp>
#include <utility>

namespace tandem::detail {

struct flight::suspend {
  flight* io;
  transfer* until;
  bool any = false;

  void operator()(waiting_handler h) const {
    auto slot = asio::get_associated_cancellation_slot(h);
    io->awaited_ = until;
    io->awaits_any_ = any;
    io->handler_.emplace(std::move(h));
    if (!slot.is_connected()) return;
    slot.assign([io = io](asio::cancellation_type type) {
      if (is_terminal(type) || !io->spares_moving_ || !io->has_moved()) io->cancel();
    });
  }
};

void flight::send(transfer& t, const peer_channel& to, flow_id flow, const_view message) {
  // An operation has one view type for both directions; a send only reads it.
  start(t, operation::kind::send, to, flow,
        {const_cast<void*>(message.data), message.bytes, message.kind, message.device}, false);
}

void flight::recv(transfer& t, const peer_channel& from, flow_id flow, mutable_view into) {
  start(t, operation::kind::recv, from, flow, into, true);
}

void flight::recv_some(transfer& t, const peer_channel& from, flow_id flow, mutable_view into) {
  start(t, operation::kind::recv, from, flow, into, false);
}

void flight::probe(transfer& t, const peer_channel& from, flow_id flow) {
  start(t, operation::kind::probe, from, flow, {}, false);
}

void flight::start(transfer& t, operation::kind what, const peer_channel& path, flow_id flow,
                   mutable_view view, bool must_fill) {
  t.what = what;
  t.at = operation::phase::idle;
  t.flow = flow;
  t.view = view;
  t.signature = signature_;
  t.rewritten = rewrites_;
  t.deadline = deadline_;
  t.result = {};
  t.failure.reset();
  t.bytes = t.total_bytes = 0;
  t.path = path;
  t.of = this;
  t.must_fill = must_fill;
  t.complete = [](operation& op) {
    transfer& over = static_cast<transfer&>(op);
    over.of->completed(over);
  };
  t.destroy = [](operation& op) noexcept {
    transfer& gone = static_cast<transfer&>(op);
    gone.of->destroyed(gone);
  };
  t.pending = !path.on->start(t);
  if (t.pending) {
    ++pending_;
  } else {
    note_result(t);
  }
}

bool flight::has_moved() noexcept {
  return std::any_of(transfers_.begin(), transfers_.end(), [](transfer& t) {
    return t.path.on != nullptr && t.what != operation::kind::probe &&
           (t.is_moving() || t.is_over());
  });
}

void flight::note_result(transfer& t) noexcept {
  const bool is_short = t.must_fill && t.bytes != t.view.bytes;
  if (failed_ == nullptr && (t.result || is_short)) failed_ = &t;
}

void flight::completed_by_spin(transfer& t) noexcept {
  t.pending = false;
  --pending_;
  note_result(t);
}

void flight::completed(transfer& t) {
  t.pending = false;
  --pending_;
  note_result(t);
  if (!handler_) {
    if (pending_ == 0) const auto last = std::exchange(memory_, nullptr);
    return;
  }
  const bool is_last = pending_ == 0;
  const bool wakes =
      awaited_ == nullptr ? is_last || awaits_any_ : !awaited_->pending || failed_ != nullptr;
  if (!wakes) return;
  if (cancelling_) {
    wake_ = true;
  } else {
    resume(handler_, executor_);
  }
}

/// The execution context is being destroyed. The suspended frames own this object, so they are
/// freed with the last transfer.
void flight::destroyed(transfer& t) noexcept {
  t.pending = false;
  if (--pending_ > 0) return;
  const auto last = std::exchange(memory_, nullptr);
  const auto frames = std::exchange(handler_, std::nullopt);
}

void flight::cancel() noexcept {
  // A channel may complete a transfer inside `cancel`; the frame must outlive this loop.
  cancelling_ = true;
  for (transfer& t : transfers_) {
    // A finished operation may outlive its channel until its completion runs.
    if (t.pending && t.at != operation::phase::done) t.path.on->cancel(t);
  }
  cancelling_ = false;
  if (std::exchange(wake_, false) && handler_) resume(handler_, executor_);
}

asio::awaitable<void> flight::until(transfer& t) {
  suspend wait{this, &t};
  return asio::async_initiate<const asio::use_awaitable_t<>&, void()>(wait, asio::use_awaitable);
}

asio::awaitable<void> flight::until_any() {
  suspend wait{this, nullptr, true};
  return asio::async_initiate<const asio::use_awaitable_t<>&, void()>(wait, asio::use_awaitable);
}

asio::awaitable<void> flight::until_idle() {
  suspend wait{this, nullptr};
  return asio::async_initiate<const asio::use_awaitable_t<>&, void()>(wait, asio::use_awaitable);
}

void flight::throw_failure() const {
  const transfer& t = *failed_;
  if (t.failure) throw error(*t.failure);
  if (t.result)
    throw error(t.result,
                {.peer = t.path.peer, .rail = {}, .phase = {}, .detail = {}, .advice = {}});
  throw error(errc::call_mismatch,
              {.peer = t.path.peer,
               .rail = {},
               .phase = {},
               .bytes_done = static_cast<std::int64_t>(t.bytes),
               .bytes_total = static_cast<std::int64_t>(t.view.bytes),
               .detail = fmt::format("rank {} sent {} bytes where {} were expected", t.path.peer,
                                     t.bytes, t.view.bytes),
               .advice = same_call_advice});
}

}  // namespace tandem::detail
