#include "word_watch.hpp"

#include <algorithm>
#include <tandem/detail/stream_word.hpp>

namespace tandem::c {

word_watch::word_watch(const asio::any_io_executor& executor)
    : pollable(executor, poll_cost::memory_read), changed_(executor), timer_(executor) {}

asio::awaitable<void> word_watch::reached(std::uint32_t& word, std::uint32_t value) {
  if (detail::has_reached(word, value)) co_return;
  const std::shared_ptr<word_watch> self = shared_from_this();
  const auto entry = waiting_.insert(waiting_.end(), waiting{&word, value});
  const std::shared_ptr<void> leave(nullptr, [self, entry](void*) { self->waiting_.erase(entry); });
  interval_ = {};
  if (!loop().is_polling()) arm();
  while (!detail::has_reached(word, value)) co_await changed_.wait();
}

bool word_watch::poll() {
  const bool found = std::ranges::any_of(
      waiting_, [](const waiting& each) { return detail::has_reached(*each.word, each.value); });
  if (found) changed_.notify_all();
  return found;
}

void word_watch::arm() {
  if (waiting_.empty() || is_timer_set_) return;
  is_timer_set_ = true;
  timer_.expires_after(interval_.next());
  timer_.async_wait([weak = weak_from_this()](error_code) {
    if (const auto self = weak.lock()) self->look();
  });
}

void word_watch::look() {
  is_timer_set_ = false;
  poll();
  if (!loop().is_polling()) arm();
}

}  // namespace tandem::c
