#include "message_lane.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "group_of_ranks.hpp"
#include "job_state.hpp"

namespace tandem::c {
namespace {

asio::awaitable<void> receive_by_channels(operation_state& op, mutable_view into, int from) {
  op.bytes = co_await op.ranks().recv(from, into, own_tag);
  op.source = from;
}

}  // namespace

message_lane::message_lane(group_of_ranks& group, std::shared_ptr<stream_messages> by, bool is_send,
                           queued_handler queued, failure_handler failed)
    : group_(group),
      by_(std::move(by)),
      is_send_(is_send),
      queued_(std::move(queued)),
      failed_(std::move(failed)) {}

accelerator::stream message_lane::stream() const noexcept {
  return is_send_ ? by_->sends() : by_->receives();
}

void message_lane::start(entry what) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(what));
    if (std::exchange(is_serving_, true)) return;
  }
  group_.loop().submit([self = shared_from_this(), group = group_.shared_from_this()] {
    const auto running = std::make_shared<cancellable>();
    self->serving_ = running;
    running->start(self->group_.loop().executor(), self->serve(group),
                   [self, running](std::exception_ptr) {});
  });
}

/// The next one; empty: the lane is idle.
std::optional<message_lane::entry> message_lane::take() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) {
    is_serving_ = false;
    return std::nullopt;
  }
  std::optional<entry> next = std::move(waiting_.front());
  waiting_.pop_front();
  return next;
}

asio::awaitable<void> message_lane::serve(std::shared_ptr<group_of_ranks> /*keep*/) {
  // The caller holds locks.
  co_await asio::post(group_.loop().executor(), asio::use_awaitable);
  while (std::optional<entry> next = take()) {
    std::exception_ptr failure;
    try {
      co_await carry_out(*next);
    } catch (...) {
      failure = std::current_exception();
    }
    if (!failure) continue;
    const bool is_first = !ended_by_;
    const error why = is_first ? failure_of(*next, as_error(failure)) : *ended_by_;
    next->op->finish(std::make_exception_ptr(why));
    if (is_first) failed_(why);
    fail(why);
  }
}

asio::awaitable<void> message_lane::carry_out(entry what) {
  if (ended_by_) throw error(*ended_by_);
  const mutable_view view = what.call.message;
  if (const device_side::point& begin = what.op->beginning()) {
    what.call.side->await(stream(), begin);
  }
  group_.ranks().set_timeout(what.op->timeout);
  stream_messages::outcome became;
  if (is_send_) {
    became = co_await by_->send(view);
  } else {
    became = co_await by_->recv(view);
  }
  if (!became.is_queued) {
    send_by_channels(what);
    co_return;
  }
  what.call.message.bytes = became.bytes;
  queued_(what, stream());
}

void message_lane::send_by_channels(const entry& what) {
  const mutable_view view = what.call.message;
  const int peer = what.call.peer;
  group_.loop().count_operations(-1);
  operation_body body;
  if (is_send_) {
    body = [view, peer](operation_state& self) { return self.ranks().send(peer, view, own_tag); };
  } else {
    body = [view, peer](operation_state& self) { return receive_by_channels(self, view, peer); };
  }
  group_.submit(what.op, std::move(body));
}

void message_lane::fail(const error& why) {
  std::deque<entry> ended;
  {
    const std::lock_guard lock(mutex_);
    if (!ended_by_) ended_by_ = why;
    ended.swap(waiting_);
  }
  by_->abort(why);
  for (const entry& each : ended) each.op->finish(std::make_exception_ptr(why));
  if (const auto running = serving_.lock()) running->cancel();
}

/// What the caller reads, who knows of no other messages than its own.
error message_lane::failure_of(const entry& which, const error& why) const {
  if (why.code() != errc::timed_out) return why;
  return error(errc::timed_out,
               {.rank = group_.job()->rank(),
                .peer = group_.ranks().job_rank(which.call.peer),
                .rail = {},
                .phase = is_send_ ? "send" : "recv",
                .detail = fmt::format("the peer has not called the {} within the time limit",
                                      is_send_ ? "receive" : "send"),
                .advice = "look for a rank that is stopped or has not made the same calls, or give "
                          "operations more time"});
}

}  // namespace tandem::c
