#include <boost/asio/execution/context.hpp>
#include <boost/asio/query.hpp>
#include <tandem/detail/poller.hpp>

namespace tandem {

poller& poller::of(const asio::any_io_executor& executor) {
  auto& of_context = asio::use_service<poller>(asio::query(executor, asio::execution::context));
  return detail::has_one_thread(executor) ? of_context : of_context.for_strands();
}

poller& poller::for_strands() {
  const std::lock_guard lock(mutex_);
  if (!for_strands_) {
    for_strands_ = std::make_unique<poller>(context());
    for_strands_->has_list_ = false;
  }
  return *for_strands_;
}

bool poller::poll_all(pollable* first) {
  bool found = false;
  for (pollable* p = first; p != nullptr; p = upcoming_) {
    upcoming_ = p->next_;
    if (p->poll()) found = true;
  }
  return found;
}

bool poller::poll() {
  const bool in_memory = poll_all(first_memory_);
  return poll_all(first_) || in_memory;
}

bool poller::poll_memory() {
  return first_memory_ != nullptr && poll_all(first_memory_);
}

void poller::arm() {
  for (pollable* const first : {first_memory_, first_}) {
    for (pollable* p = first; p != nullptr; p = upcoming_) {
      upcoming_ = p->next_;
      p->arm();
    }
  }
}

pollable::pollable(const asio::any_io_executor& executor, poll_cost cost)
    : poller_(poller::of(executor)), cost_(cost) {
  if (!poller_.has_list_) return;
  pollable*& first = cost_ == poll_cost::memory_read ? poller_.first_memory_ : poller_.first_;
  next_ = first;
  if (next_ != nullptr) next_->previous_ = this;
  first = this;
  if (cost_ == poll_cost::memory_read) ++poller_.memory_pollables_;
}

pollable::~pollable() {
  if (!poller_.has_list_) return;
  pollable*& first = cost_ == poll_cost::memory_read ? poller_.first_memory_ : poller_.first_;
  if (poller_.upcoming_ == this) poller_.upcoming_ = next_;
  if (previous_ != nullptr) {
    previous_->next_ = next_;
  } else {
    first = next_;
  }
  if (next_ != nullptr) next_->previous_ = previous_;
  if (cost_ == poll_cost::memory_read) --poller_.memory_pollables_;
}

}  // namespace tandem
