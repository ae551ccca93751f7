#include "operation.hpp"

#include <utility>

namespace tandem::c {

bool operation_state::wait(progress::time_point limit) {
  if (!is_done()) loop_.wait(is_done_, limit);
  return is_done();
}

void operation_state::on_complete(std::function<void()> callback) {
  {
    const std::lock_guard lock(callback_mutex_);
    if (!is_done()) {
      callback_ = std::move(callback);
      return;
    }
  }
  loop_.notify_user(std::move(callback));
}

void operation_state::begin_after(std::shared_ptr<device_side> side, accelerator::stream stream) {
  begin_ = side->mark(stream);
  side_ = std::move(side);
}

void operation_state::hold(accelerator::stream stream) {
  if (side_ == nullptr || !side_->can_hold()) {
    wait(progress::time_point::max());
    return;
  }
  const std::lock_guard lock(callback_mutex_);
  if (!is_done()) holds_.push_back(side_->hold(stream));
}

/// The time limit holds for what starts before the first suspension of the body.
asio::awaitable<void> operation_state::run(communicator& ranks, std::function<void()> begun) {
  std::exception_ptr failure;
  if (begin_) {
    try {
      co_await side_->reached(std::move(begin_));
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (begun) begun();
  if (failure) std::rethrow_exception(failure);
  ranks.set_timeout(timeout);
  co_await body_(*this);
}

void operation_state::start(communicator& ranks, std::function<void()> begun,
                            std::function<void()> ended) {
  running_.start(loop_.executor(), run(ranks, std::move(begun)),
                 [self = shared_from_this(), ended = std::move(ended)](std::exception_ptr failure) {
                   self->finish(failure);
                   ended();
                 });
}

void operation_state::finish(std::exception_ptr failure) {
  if (is_done()) return;
  failure_ = std::move(failure);
  body_ = nullptr;
  std::function<void()> callback;
  {
    const std::lock_guard lock(callback_mutex_);
    is_done_.store(true, std::memory_order_release);
    callback = std::move(callback_);
    holds_.clear();
  }
  loop_.count_operations(-1);
  loop_.notify();
  if (callback) loop_.notify_user(std::move(callback));
}

}  // namespace tandem::c
