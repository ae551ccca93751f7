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

/// The time limit holds for what starts before the first suspension.
asio::awaitable<void> operation_state::run(operation_state& self, communicator& ranks) {
  ranks.set_timeout(self.timeout);
  co_await self.body_(self);
}

void operation_state::start(communicator& ranks, std::function<void()> ended) {
  running_.start(loop_.executor(), run(*this, ranks),
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
  }
  loop_.count_operations(-1);
  loop_.notify();
  if (callback) loop_.notify_user(std::move(callback));
}

}  // namespace tandem::c
