#include "word_watch.hpp"

#include <algorithm>
#include <tandem/detail/stream_word.hpp>

namespace tandem::c {

word_watch::word_watch(const asio::any_io_executor& executor)
    : memory_watch(executor), changed_(executor) {}

asio::awaitable<void> word_watch::reached(std::uint32_t& word, std::uint32_t value) {
  if (detail::has_reached(word, value)) co_return;
  const std::shared_ptr<word_watch> self = shared_from_this();
  const auto entry = waiting_.insert(waiting_.end(), waiting{&word, value});
  const std::shared_ptr<void> leave(nullptr, [self, entry](void*) { self->waiting_.erase(entry); });
  start_watching();
  while (!detail::has_reached(word, value)) co_await changed_.wait();
}

bool word_watch::look() {
  const bool found = std::ranges::any_of(
      waiting_, [](const waiting& each) { return detail::has_reached(*each.word, each.value); });
  if (found) changed_.notify_all();
  return found;
}

}  // namespace tandem::c
