#include "board_access.hpp"

#include <algorithm>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <utility>

namespace tandem::detail {

struct board_access::suspend {
  board_access* of;

  void operator()(waiting_handler h) const {
    auto slot = asio::get_associated_cancellation_slot(h);
    of->handler_.emplace(std::move(h));
    of->on_->wait(*of, of->due_);
    if (!slot.is_connected()) return;
    slot.assign([of = of](asio::cancellation_type) { of->cancel(); });
  }
};

void board_access::open(board& on, std::uint64_t call, const call_signature& signature) noexcept {
  on_ = &on;
  call_ = call;
  signature_ = signature;
  slot_ = nullptr;
  next_ = last_ = 0;
  failure_.reset();
  on.begin(call);
}

void board_access::close() noexcept {
  if (on_ == nullptr) return;
  on_->cancel_wait(*this);
  std::exchange(on_, nullptr)->end(call_);
}

bool board_access::ask() {
  if (!failure_) {
    if (poll()) return true;
    on_->flush_wakeups();
    if (!on_->failed() && on_->spin_wait(*this)) return true;
    failure_ = on_->failed();
  }
  if (failure_) throw error(*failure_);
  return false;
}

bool board_access::may_write() {
  writes_ = true;
  return ask();
}

bool board_access::have(int first, int last) {
  writes_ = false;
  next_ = std::max(next_, first);
  last_ = last;
  return ask();
}

bool board_access::poll() noexcept {
  if (writes_) {
    slot_ = on_->slot_for(call_);
    return slot_ != nullptr;
  }
  while (next_ < last_ && (next_ == on_->rank() || on_->has(next_, call_))) ++next_;
  return next_ >= last_;
}

std::optional<board::awaited> board_access::missing() const noexcept {
  if (writes_) return std::nullopt;
  board::awaited left{call_};
  for (int r = next_; r < last_; ++r) {
    if (r != on_->rank() && !on_->has(r, call_)) left.ranks |= std::uint32_t{1} << r;
  }
  return left;
}

asio::awaitable<void> board_access::wait() {
  suspend wait{this};
  return asio::async_initiate<const asio::use_awaitable_t<>&, void()>(wait, asio::use_awaitable);
}

void board_access::cancel() noexcept {
  if (!handler_) return;
  on_->cancel_wait(*this);
  failure_ = std::make_shared<error>(asio::error::operation_aborted);
  resume(handler_, executor_);
}

void board_access::complete(std::shared_ptr<const error> failure) {
  failure_ = std::move(failure);
  if (handler_) resume(handler_, executor_);
}

/// Moves the handler out first: destroying the waiting coroutine frames destroys this object.
void board_access::abandon() noexcept {
  const auto frames = std::exchange(handler_, std::nullopt);
}

}  // namespace tandem::detail
