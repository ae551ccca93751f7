#include <boost/asio/execution/context.hpp>
#include <boost/asio/query.hpp>
#include <tandem/poller.hpp>

namespace tandem {

poller& poller::of(const asio::any_io_executor& executor) {
  return asio::use_service<poller>(asio::query(executor, asio::execution::context));
}

bool poller::poll() {
  bool found = false;
  for (pollable* p = first_; p != nullptr; p = upcoming_) {
    upcoming_ = p->next_;
    if (p->poll()) found = true;
  }
  return found;
}

void poller::arm() {
  for (pollable* p = first_; p != nullptr; p = upcoming_) {
    upcoming_ = p->next_;
    p->arm();
  }
}

pollable::pollable(const asio::any_io_executor& executor) : poller_(poller::of(executor)) {
  next_ = poller_.first_;
  if (next_ != nullptr) next_->previous_ = this;
  poller_.first_ = this;
}

pollable::~pollable() {
  if (poller_.upcoming_ == this) poller_.upcoming_ = next_;
  if (previous_ != nullptr) {
    previous_->next_ = next_;
  } else {
    poller_.first_ = next_;
  }
  if (next_ != nullptr) next_->previous_ = previous_;
}

}  // namespace tandem
