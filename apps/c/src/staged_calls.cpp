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

std::shared_ptr<staged_block> take_block(device_side& of, progress& loop, std::size_t bytes) {
  for (;;) {
    if (std::shared_ptr<staged_block> taken = of.blocks().take(bytes)) return taken;
    loop.poll();
    std::this_thread::sleep_for(block_interval);
  }
}

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
  return what.data.bytes > 0 && what.data.bytes <= max_bytes_ && what.side &&
         what.side->on().facts().has_stream_memory_ops;
}

std::vector<std::shared_ptr<operation_state>> staged_calls::in_progress() {
  std::erase_if(started_, [](const auto& each) { return each->is_done(); });
  return started_;
}

void staged_calls::start(const std::shared_ptr<operation_state>& op, const library_call& what) {
  device_side& side = *what.side;
  const data_call& data = what.data;
  const auto block =
      take_block(side, group_.loop(), data.from.bytes + max_padding_bytes + data.into.bytes);
  accelerator::stream in = what.stream, out = what.stream;
  if (!what.is_in_stream) {
    if (in_.get() == nullptr) {
      in_ = device_stream(side.on());
      out_ = device_stream(side.on());
    }
    in = in_.get();
    out = out_.get();
    if (op->beginning()) side.await(in, op->beginning());
  }
  block->queue(data.from, data.into, in, out);
  device_side::point end;
  try {
    end = side.emptied(block, out, !what.is_in_stream);
  } catch (...) {
    block->release();
    throw;
  }
  op->was_staged(what.side, block, side.filled(block), end, what.is_in_stream);
  group_.submit(op,
                [function = data.carry_out, side = what.side, block, end](operation_state& self) {
                  return carry_out(self, function, side, block, end);
                });
}

}  // namespace tandem::c
