#include "device_side.hpp"

#include <utility>

namespace tandem::c {

/// Events that are not in use.
class device_side::event_pool {
 public:
  explicit event_pool(accelerator& on) : on_(on) {}
  ~event_pool() {
    for (const accelerator::event each : free_) on_.free_event(each);
  }
  event_pool(const event_pool&) = delete;
  event_pool& operator=(const event_pool&) = delete;

  accelerator::event take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        const accelerator::event taken = free_.back();
        free_.pop_back();
        return taken;
      }
    }
    return on_.make_event();
  }
  void give_back(accelerator::event used) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(used);
  }

 private:
  accelerator& on_;
  std::mutex mutex_;
  std::vector<accelerator::event> free_;
};

struct device_side::recorded_event {
  explicit recorded_event(std::shared_ptr<event_pool> from)
      : pool(std::move(from)), handle(pool->take()) {}
  ~recorded_event() { pool->give_back(handle); }
  recorded_event(const recorded_event&) = delete;
  recorded_event& operator=(const recorded_event&) = delete;

  const std::shared_ptr<event_pool> pool;
  const accelerator::event handle;
};

device_side::device_side(progress& loop, accelerator& on, bool streams_wait)
    : on_(on),
      can_hold_(streams_wait && on.facts().has_stream_memory_ops),
      events_(std::make_shared<event_pool>(on)),
      watch_(loop.executor(), on) {
  if (!can_hold_) return;
  // What `hold` makes on first use, which is then on any thread.
  const device_stream unused(on_);
  watch_.hold(unused.get()).release();
}

device_side::point device_side::mark(accelerator::stream of) {
  if (on_.is_capturing(of)) {
    throw error(errc::bad_input, "the stream is being captured into a graph",
                "call Tandem outside of the capture");
  }
  const auto made = std::make_shared<recorded_event>(events_);
  on_.record(made->handle, of);
  return made;
}

bool device_side::has_passed(const point& what) const {
  return on_.is_complete(what->handle);
}

void device_side::await(accelerator::stream which, const point& what) const {
  on_.await(which, what->handle);
}

device_stream device_side::take_stream() {
  if (free_streams_.empty()) free_streams_.emplace_back(on_);
  device_stream taken = std::move(free_streams_.back());
  free_streams_.pop_back();
  return taken;
}

asio::awaitable<void> device_side::reached(point what) {
  device_stream own = take_stream();
  on_.await(own.get(), what->handle);
  co_await watch_.reached(own.get());
  free_streams_.push_back(std::move(own));
}

asio::awaitable<void> device_side::copy(void* to, const void* from, std::size_t bytes) {
  device_stream own = take_stream();
  on_.copy(to, from, bytes, own.get());
  co_await watch_.reached(own.get());
  free_streams_.push_back(std::move(own));
}

}  // namespace tandem::c
