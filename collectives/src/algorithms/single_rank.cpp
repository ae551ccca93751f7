#include "algorithms/algorithms.hpp"

namespace tandem::detail {

asio::awaitable<void> single_rank(std::shared_ptr<group> in, const_view from, mutable_view into) {
  co_await empty_call(in);
  device_queue* const queue = in->queue_for(into);
  copy_block(queue, into, from);
  if (queue != nullptr && queue->pending()) co_await queue->synchronize();
}

asio::awaitable<void> single_rank(std::shared_ptr<group> in, const_view from, mutable_view into,
                                  reducer by) {
  co_await empty_call(in);
  device_queue* const queue = in->queue_for(into);
  by.prepare(into.data, from.data, from.bytes);
  if (queue != nullptr && queue->pending()) co_await queue->synchronize();
}

}  // namespace tandem::detail
