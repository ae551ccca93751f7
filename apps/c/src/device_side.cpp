#include "device_side.hpp"

#include <utility>

namespace tandem::c {

device_side::device_side(progress& loop, accelerator& on) : on_(on), watch_(loop.executor(), on) {
  if (!can_hold()) return;
  // What `hold` makes on first use, which is then on any thread.
  const device_stream unused(on_);
  watch_.hold(unused.get()).release();
}

device_side::point device_side::mark(accelerator::stream of) {
  if (on_.is_capturing(of)) {
    throw error(errc::bad_input, "the stream is being captured into a graph",
                "call Tandem outside of the capture");
  }
  point taken;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      taken = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (!taken) taken = std::make_shared<device_stream>(on_);
  const accelerator::event now = on_.make_event();
  try {
    on_.record(now, of);
    on_.await(taken->get(), now);
  } catch (...) {
    on_.free_event(now);
    throw;
  }
  on_.free_event(now);  // the driver keeps it as long as the stream waits for it
  return taken;
}

asio::awaitable<void> device_side::reached(point what) {
  co_await watch_.reached(what->get());
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(what));
}

}  // namespace tandem::c
