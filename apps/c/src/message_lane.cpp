#include "message_lane.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "group_of_ranks.hpp"
#include "job_state.hpp"
#include "status.hpp"

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
    self->run(self->serve(group));
  });
}

void message_lane::run(asio::awaitable<void> what) {
  const auto running = std::make_shared<cancellable>();
  std::erase_if(running_, [](const auto& each) { return each.expired(); });
  running_.push_back(running);
  running->start(group_.loop().executor(), std::move(what),
                 [self = shared_from_this(), running](std::exception_ptr) {});
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

asio::awaitable<void> message_lane::serve(group_ptr /*keep*/) {
  // The caller holds locks.
  co_await asio::post(group_.loop().executor(), asio::use_awaitable);
  while (std::optional<entry> next = take()) {
    std::exception_ptr failure;
    try {
      co_await carry_out(*next);
    } catch (...) {
      failure = std::current_exception();
    }
    if (failure) end_with(*next, failure);
  }
}

asio::awaitable<void> message_lane::carry_out(entry what) {
  if (ended_by_) throw error(*ended_by_);
  const mutable_view view = what.call.message;
  if (const device_side::point& begin = what.op->beginning()) {
    what.call.side->await(stream(), begin);
  }
  group_.ranks().set_timeout(what.op->timeout);
  bool is_queued = false;
  if (is_send_) {
    is_queued = co_await by_->send(view);
  } else {
    what.number = co_await by_->recv(view);
    is_queued = what.number != 0;
  }
  if (!is_queued) {
    carry_out_by_channels(what);
    co_return;
  }
  if (!is_send_) {
    what.op->expects_answer();
    unanswered_.push_back(what);
    if (!std::exchange(is_taking_answers_, true)) run(take_answers(group_.shared_from_this()));
  }
  queued_(what, stream());
}

void message_lane::carry_out_by_channels(const entry& what) {
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

asio::awaitable<void> message_lane::take_answers(group_ptr /*keep*/) {
  while (!unanswered_.empty()) {
    const entry next = unanswered_.front();
    std::exception_ptr failure;
    try {
      co_await take_answer(next);
    } catch (...) {
      failure = std::current_exception();
    }
    if (failure) {
      end_with(next, failure);
      break;
    }
    unanswered_.pop_front();
  }
  is_taking_answers_ = false;
}

asio::awaitable<void> message_lane::take_answer(entry what) {
  if (ended_by_) throw error(*ended_by_);
  group_.ranks().set_timeout(what.op->timeout);
  stream_messages::outcome became = co_await by_->answer();
  const mutable_view into = what.call.message;
  if (became.is_queued && became.bytes > into.bytes) {
    by_->release(what.number);
    what.op->finish(std::make_exception_ptr(too_long(became.bytes, what.call.peer, into)));
    co_return;
  }
  if (!became.is_queued) {
    if (what.op->beginning()) co_await what.call.side->reached(what.op->beginning());
    became.bytes = co_await group_.ranks().recv(what.call.peer, into, own_tag);
    by_->release(what.number);
  }
  what.op->was_answered(what.call.peer, became.bytes);
}

void message_lane::end_with(const entry& which, const std::exception_ptr& failure) {
  const bool is_first = !ended_by_;
  const error why = is_first ? failure_of(which, as_error(failure)) : *ended_by_;
  which.op->finish(std::make_exception_ptr(why));
  if (is_first) failed_(why);
  fail(why);
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

void message_lane::fail(const error& why) {
  std::deque<entry> ended;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(waiting_);
  }
  if (!ended_by_) ended_by_ = why;
  by_->abort(why);
  for (const auto* const list : {&ended, &unanswered_}) {
    for (const entry& each : *list) each.op->finish(std::make_exception_ptr(why));
  }
  for (const auto& each : std::exchange(running_, {})) {
    if (const auto running = each.lock()) running->cancel();
  }
}

}  // namespace tandem::c
