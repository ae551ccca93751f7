#include "staged_calls.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "group_of_ranks.hpp"
#include "library_calls.hpp"

namespace tandem::c {
namespace {

constexpr std::size_t max_padding_bytes = 64;
/// While all blocks are in use.
constexpr std::chrono::microseconds block_interval{50};

asio::awaitable<void> carry_out(operation_state& self, data_call::function what,
                                std::shared_ptr<device_side> side,
                                std::shared_ptr<staged_block> block, device_side::point end) {
  co_await what(self, block->from(), block->into());
  block->release();
  co_await side->reached(std::move(end));
}

}  // namespace

staged_calls::staged_calls(group_of_ranks& group, std::size_t max_bytes)
    : group_(group), max_bytes_(max_bytes) {}

bool staged_calls::takes(const library_call& what) const noexcept {
  // Where streams share hardware queues, one that waits for a receive may hold up a later send.
  if (what.peer != library_call::all_ranks && what.side &&
      !what.side->on().facts().has_stream_memory_ops) {
    return false;
  }
  return what.data.bytes > 0 && what.data.bytes <= max_bytes_ && what.side &&
         what.side->blocks().is_possible();
}

std::vector<std::shared_ptr<operation_state>> staged_calls::in_progress() {
  std::erase_if(started_, [](const auto& each) { return each->is_done(); });
  return started_;
}

void staged_calls::wait_for_room(device_side& of) {
  while (of.blocks().is_full()) {
    group_.loop().poll();
    std::this_thread::sleep_for(block_interval);
  }
}

void staged_calls::hand_over(staged_call& what) {
  device_side& side = *what.call.side;
  const data_call& data = what.call.data;
  std::size_t bytes = data.from.bytes;
  if (!data.is_in_place) bytes += max_padding_bytes + data.into.bytes;
  what.block = side.blocks().take(bytes);
  accelerator::stream on = what.call.stream;
  if (!what.call.is_in_stream) {
    if (in_.get() == nullptr) in_ = device_stream(side.on());
    on = in_.get();
    if (what.op->beginning()) side.await(on, what.op->beginning());
  }
  what.block->queue_in(data.from, data.is_in_place, on);
}

void staged_calls::start(const staged_call& what) {
  const std::shared_ptr<device_side> side = what.call.side;
  const std::shared_ptr<staged_block> block = what.block;
  const data_call& data = what.call.data;
  const bool has_out = data.into.bytes > 0;
  const bool is_in_stream = what.call.is_in_stream;
  accelerator::stream on = is_in_stream ? what.call.stream : in_.get();
  device_side::point end;
  try {
    if (has_out && !is_in_stream) {
      device_stream& out = out_[what.call.peer];
      if (out.get() == nullptr) out = device_stream(side->on());
      on = out.get();
    }
    if (has_out) block->queue_out(data.into, on);
    end = side->emptied(block, on, !is_in_stream);
  } catch (...) {
    block->release();
    throw;
  }
  what.op->was_staged(side, block, side->filled(block), end, is_in_stream && has_out);
  in_progress();
  started_.push_back(what.op);
  group_.loop().count_operations(-1);
  group_.submit(what.op, [function = data.carry_out, side, block, end](operation_state& self) {
    return carry_out(self, function, side, block, end);
  });
}

}  // namespace tandem::c
