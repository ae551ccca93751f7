#include <boost/system/error_code.hpp>
#include <tandem/detail/memory_watch.hpp>

namespace tandem::detail {

memory_watch::memory_watch(const asio::any_io_executor& executor)
    : pollable(executor, poll_cost::memory_read),
      timer_(executor),
      self_(std::make_shared<memory_watch*>(this)) {}

void memory_watch::start_watching() {
  interval_ = {};
  if (!loop().is_polling()) arm();
}

void memory_watch::arm() {
  if (!is_watching() || is_timer_set_) return;
  is_timer_set_ = true;
  timer_.expires_after(interval_.next());
  timer_.async_wait([self = std::weak_ptr<memory_watch*>(self_)](boost::system::error_code) {
    if (const auto there = self.lock()) (*there)->look_again();
  });
}

void memory_watch::look_again() {
  is_timer_set_ = false;
  look();
  if (!loop().is_polling()) arm();
}

}  // namespace tandem::detail
