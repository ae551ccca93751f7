#include "device_queue.hpp"

#include <algorithm>
#include <tandem/detail/copy.hpp>

namespace tandem::detail {

void device_work::copy(void* to, const void* from, std::size_t bytes) {
  ++queued_;
  on().copy(to, from, bytes, stream_);
}

void device_work::combine(data_type type, kernel_work work, void* into, const void* a,
                          const void* b, std::size_t count) {
  ++queued_;
  kernels_->combine(type, work, into, a, b, count, stream_);
}

void device_work::scale(data_type type, kernel_work work, void* into, const void* from,
                        std::size_t count, double by) {
  ++queued_;
  kernels_->scale(type, work, into, from, count, by, stream_);
}

device_queue::device_queue(const asio::any_io_executor& executor, accelerator& on)
    : device_work(device_kernels::of(on), nullptr), own_(on), watch_(executor, on) {
  stream_ = own_.get();
}

asio::awaitable<void> device_queue::synchronize() {
  struct until_done {
    device_queue& of;
    bool over = false;
    ~until_done() {
      if (!over) of.finish();
    }
  };
  const std::uint64_t upto = queued_;
  until_done guard{*this};
  co_await watch_.reached(stream_);
  guard.over = true;
  done_ = std::max(done_, upto);
}

void device_queue::finish() noexcept {
  if (!pending()) return;
  try {
    on().finish(stream_);
  } catch (const error&) {  // a failed device accesses nothing any more
  }
  done_ = queued_;
}

void copy_block(device_work* queue, mutable_view to, const_view from) {
  if (from.bytes == 0 || from.data == to.data) return;
  if (queue != nullptr) {
    queue->copy(to.data, from.data, from.bytes);
  } else {
    copy_part(to.data, from.data, from.bytes, from.bytes);
  }
}

}  // namespace tandem::detail
