#include "device_side.hpp"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <tandem/detail/stream_word.hpp>
#include <utility>

namespace tandem::c {
namespace {

/// Whether a kernel has carried out a message.
constexpr std::chrono::microseconds kernel_interval{50};

/// Whether that is one of several streams, each of a thread (CU_STREAM_PER_THREAD,
/// hipStreamPerThread).
bool is_of_thread(accelerator::stream which) {
  return reinterpret_cast<std::uintptr_t>(which) == 2;
}

}  // namespace

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

struct device_side::stream_point {
  stream_point() = default;
  ~stream_point() {
    if (events) events->give_back(event);
  }
  stream_point(const stream_point&) = delete;
  stream_point& operator=(const stream_point&) = delete;

  void record(std::shared_ptr<event_pool> from, accelerator& of, accelerator::stream at) {
    event = from->take();
    events = std::move(from);
    of.record(event, at);
  }
  bool are_carried() const noexcept {
    return std::ranges::all_of(carried, &kernel_messages::end::has_passed);
  }
  /// The words that tell it, of a block.
  staged_block::words_of_copy words() const noexcept {
    return is_filled ? block->filled() : block->emptied();
  }

  std::shared_ptr<event_pool> events;  ///< null: no event
  accelerator::event event = nullptr;
  std::shared_ptr<staged_block> block;  ///< null: the event tells it
  bool is_filled = false;
  boost::container::small_vector<kernel_messages::end, 2> carried;  ///< by kernels
  bool is_known_by_kernels = false;  ///< they tell it, else the event does behind them
  accelerator::stream on = nullptr;  ///< where it is
};

device_side::device_side(progress& loop, accelerator& on, bool streams_wait)
    : on_(on),
      use_(loop.use_of(on.kind(), on.device())),
      can_hold_(streams_wait && on.facts().has_stream_memory_ops),
      events_(std::make_shared<event_pool>(on)),
      blocks_(std::make_shared<staging>(on)),
      watch_(loop.executor(), on),
      words_(std::make_shared<word_watch>(loop.executor())) {
  if (!can_hold_) return;
  // What `hold` makes on first use, which is then on any thread.
  const device_stream unused(on_);
  watch_.hold(unused.get()).release();
}

void device_side::require_no_capture(accelerator::stream of) const {
  if (!on_.is_capturing(of)) return;
  throw error(errc::bad_input, "the stream is being captured into a graph",
              "call Tandem outside of the capture");
}

device_side::point device_side::mark(accelerator::stream of) {
  require_no_capture(of);
  const auto made = std::make_shared<stream_point>();
  made->record(events_, on_, of);
  made->on = of;
  return made;
}

device_side::point device_side::filled(std::shared_ptr<staged_block> which) {
  const auto made = std::make_shared<stream_point>();
  made->block = std::move(which);
  made->is_filled = true;
  return made;
}

device_side::point device_side::emptied(std::shared_ptr<staged_block> which,
                                        accelerator::stream out, bool is_awaited) {
  const auto made = std::make_shared<stream_point>();
  made->block = std::move(which);
  made->on = out;
  if (is_awaited) made->record(events_, on_, out);
  return made;
}

device_side::point device_side::carried(std::span<const kernel_messages::end> which,
                                        accelerator::stream on, bool is_awaited) const {
  const auto made = std::make_shared<stream_point>();
  made->carried.assign(which.begin(), which.end());
  made->is_known_by_kernels = true;
  made->on = on;
  if (is_awaited) made->record(events_, on_, on);
  return made;
}

device_side::point device_side::behind(std::span<const kernel_messages::end> which,
                                       accelerator::stream on) const {
  const auto made = std::make_shared<stream_point>();
  made->carried.assign(which.begin(), which.end());
  made->record(events_, on_, on);
  made->on = on;
  return made;
}

bool device_side::is_carried(const point& what) const noexcept {
  return what->are_carried();
}

bool device_side::is_by_kernels(const point& what) const noexcept {
  return what->is_known_by_kernels;
}

bool device_side::has_passed(const point& what) const {
  if (!what->are_carried()) return false;
  if (what->is_known_by_kernels) return true;
  if (what->block) {
    return what->is_filled ? what->block->have_reached(what->words()) : what->block->is_emptied();
  }
  return on_.is_complete(what->event);
}

/// Points of one stream use one pool, of their device.
bool device_side::passed_points::include(const point& what) const noexcept {
  return !what->block && std::ranges::any_of(last_, [&what](const point& each) {
    return each->events == what->events && each->on == what->on;
  });
}

void device_side::passed_points::add(const point& what) {
  if (what->events && !what->block && !is_of_thread(what->on)) last_.push_back(what);
}

void device_side::await(accelerator::stream which, const point& what) {
  if (what->events) {
    if (which != what->on || is_of_thread(which)) on_.await(which, what->event);
  } else if (which != what->on) {
    // Not through the block's word, whose memory may go before this stream comes to it.
    on_.await(which, mark(what->on)->event);
  }
}

device_stream device_side::take_stream() {
  if (free_streams_.empty()) free_streams_.emplace_back(on_);
  device_stream taken = std::move(free_streams_.back());
  free_streams_.pop_back();
  return taken;
}

asio::awaitable<void> device_side::reached(point what) {
  if (!what->carried.empty()) {
    asio::steady_timer later(co_await asio::this_coro::executor);
    while (!what->are_carried()) {
      later.expires_after(kernel_interval);
      co_await later.async_wait(asio::use_awaitable);
    }
    if (what->is_known_by_kernels) co_return;
  }
  if (what->block) {
    const std::shared_ptr<word_watch> words = words_;
    for (std::uint32_t& each : what->words()) co_await words->reached(each, what->block->number());
    co_return;
  }
  device_stream own = take_stream();
  on_.await(own.get(), what->event);
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
