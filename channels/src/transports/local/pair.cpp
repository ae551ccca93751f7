#include "transports/local/pair.hpp"

#include <boost/asio/post.hpp>
#include <tandem/channels.hpp>
#include <tandem/detail/copy.hpp>
#include <utility>

#include "link/channel_handle.hpp"

namespace tandem::local {

pair_state::pair_state(const protocol::limits& agreed, const protocol::identity& first,
                       const protocol::identity& second,
                       std::chrono::steady_clock::duration operation_timeout)
    : sessions{protocol::session{agreed, first, operation_timeout},
               protocol::session{agreed, second, operation_timeout}} {
  sessions[0].set_meter({"local", first.rank, first.peer});
  sessions[1].set_meter({"local", second.rank, second.peer});
}

bool pair_state::carry(protocol::session& from, protocol::session& to) {
  protocol::outgoing_frame out;
  if (!from.next(out)) return false;
  if (!protocol::carries_payload(out.header.type)) {
    to.handle(out.header);
    return true;
  }
  protocol::incoming_payload where;
  if (to.begin(out.header, where)) {
    if (where.target != nullptr) {
      detail::copy_part(where.target, out.payload.data, out.payload.bytes, where.message_bytes());
    }
    to.end(where);
  }
  from.sent(out);
  return true;
}

void pair_state::pump() {
  bool moved = true;
  while (moved) {
    const bool there = carry(sessions[0], sessions[1]);
    const bool back = carry(sessions[1], sessions[0]);
    moved = there || back;
  }
}

end::end(std::shared_ptr<pair_state> over, int side, asio::any_io_executor executor)
    : pending_owner(executor),
      state_(std::move(over)),
      side_(side),
      executor_(std::move(executor)),
      owner_(executor_),
      work_(asio::prefer(executor_, asio::execution::outstanding_work.tracked)),
      timer_(executor_) {}

bool end::start(operation& op) {
  bool is_done = false;
  {
    const std::lock_guard lock(state_->mutex);
    own_session().start(op);
    state_->pump();
    is_done = own_session().take_if_done(op);
    complete_soon();
    if (const auto peer = peer_end()) peer->complete_soon();
  }
  if (!is_done && op.due < timer_due_) arm_timer(op.due);
  return is_done;
}

void end::cancel(operation& op) {
  const std::lock_guard lock(state_->mutex);
  own_session().cancel(op);
  state_->pump();
  complete_soon();
  if (const auto peer = peer_end()) peer->complete_soon();
}

void end::fail(const error& reason, bool /*notify_peer*/) {
  const std::lock_guard lock(state_->mutex);
  if (own_session().failed()) return;
  own_session().fail(reason);
  complete_soon();
  const auto peer = peer_end();
  if (!peer || peer->own_session().failed()) return;
  if (reason.code() == errc::channel_closed) {
    protocol::frame close_frame;
    close_frame.type = protocol::frame_type::close;
    peer->own_session().handle(close_frame);
  } else {
    peer->own_session().fail(reason);
  }
  peer->complete_soon();
}

channel_stats end::stats() const {
  const std::lock_guard lock(state_->mutex);
  return own_session().stats();
}

/// @pre the lock is held.
void end::complete_soon() {
  if (completion_posted_ || !(own_session().has_done() || own_session().is_over())) return;
  completion_posted_ = true;
  asio::post(executor_, [self = shared_from_this()] {
    self->owner_.require_here("a completion of a channel");
    self->complete_done();
  });
}

void end::complete_done() {
  std::unique_lock lock(state_->mutex);
  completion_posted_ = false;
  while (operation* op = own_session().pop_done()) {
    lock.unlock();
    op->complete(*op);
    lock.lock();
  }
  // A finished session has no deadlines and must not keep the loop running.
  if (!own_session().is_over()) return;
  timer_.cancel();
  work_ = {};
}

void end::arm_timer(operation::time_point when) {
  timer_due_ = when;
  if (when == operation::time_point::max()) return;
  timer_.expires_at(when);
  timer_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (cancelled || !self) return;
    self->owner_.require_here("a deadline of a channel");
    operation::time_point next;
    {
      const std::lock_guard lock(self->state_->mutex);
      next = self->own_session().expire(std::chrono::steady_clock::now()).next;
      self->state_->pump();
      self->complete_soon();
      if (const auto peer = self->peer_end()) peer->complete_soon();
    }
    self->arm_timer(next);
  });
}

void end::abandon() noexcept {
  const auto self = weak_from_this().lock();
  for (;;) {
    operation* op = nullptr;
    {
      const std::lock_guard lock(state_->mutex);
      op = own_session().pop_any();
    }
    if (op == nullptr) return;
    if (op->destroy != nullptr) op->destroy(*op);
  }
}

std::pair<std::unique_ptr<channel>, std::unique_ptr<channel>> connect_ranks(
    asio::any_io_executor first, asio::any_io_executor second, int first_rank, int second_rank,
    const settings& options) {
  const auto shared = std::make_shared<pair_state>(
      protocol::offered(options), protocol::identity{first_rank, second_rank, "local"},
      protocol::identity{second_rank, first_rank, "local"}, options.operation_timeout);
  const auto a = std::make_shared<end>(shared, 0, std::move(first));
  const auto b = std::make_shared<end>(shared, 1, std::move(second));
  shared->ends = {a, b};
  using end_channel = transport::channel_handle<end>;
  return {std::make_unique<end_channel>(a), std::make_unique<end_channel>(b)};
}

std::pair<std::unique_ptr<channel>, std::unique_ptr<channel>> make_pair(
    asio::any_io_executor first, asio::any_io_executor second, const settings& options) {
  return connect_ranks(std::move(first), std::move(second), -1, -1, options);
}

}  // namespace tandem::local
