#include "board_visit.hpp"

#include <algorithm>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <utility>

namespace tandem::detail {

struct board_visit::suspend {
  board_visit* of;

  void operator()(waiting_handler h) const {
    auto slot = asio::get_associated_cancellation_slot(h);
    of->handler_.emplace(std::move(h));
    of->on_->wait(*of);
    if (!slot.is_connected()) return;
    slot.assign([of = of](asio::cancellation_type) { of->cancel(); });
  }
};

void board_visit::open(board& on, std::uint64_t call, const message_note& note) noexcept {
  on_ = &on;
  call_ = call;
  note_ = note;
  place_ = nullptr;
  next_ = last_ = 0;
  failure_.reset();
  on.begin(call);
}

void board_visit::close() noexcept {
  if (on_ == nullptr) return;
  on_->forget(*this);
  std::exchange(on_, nullptr)->end(call_);
}

bool board_visit::ask() {
  if (!failure_) {
    if (look()) return true;
    on_->settle();
    if (!on_->failed() && on_->linger(*this)) return true;
    failure_ = on_->failed();
  }
  if (failure_) throw error(*failure_);
  return false;
}

bool board_visit::may_write() {
  writes_ = true;
  return ask();
}

bool board_visit::have(int first, int last) {
  writes_ = false;
  next_ = std::max(next_, first);
  last_ = last;
  return ask();
}

bool board_visit::look() noexcept {
  if (writes_) {
    place_ = on_->place_for(call_);
    return place_ != nullptr;
  }
  while (next_ < last_ && (next_ == on_->rank() || on_->has(next_, call_))) ++next_;
  return next_ >= last_;
}

asio::awaitable<void> board_visit::wait() {
  suspend wait{this};
  return asio::async_initiate<const asio::use_awaitable_t<>&, void()>(wait, asio::use_awaitable);
}

void board_visit::cancel() noexcept {
  if (!handler_) return;
  on_->forget(*this);
  failure_ = std::make_shared<error>(asio::error::operation_aborted);
  resume(handler_, executor_);
}

void board_visit::over(std::shared_ptr<const error> failure) {
  failure_ = std::move(failure);
  if (handler_) resume(handler_, executor_);
}

/// Moves the handler out first: destroying the waiting coroutine frames destroys this object.
void board_visit::gone() noexcept {
  const auto frames = std::exchange(handler_, std::nullopt);
}

}  // namespace tandem::detail
