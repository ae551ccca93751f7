#include <fmt/format.h>

#include <algorithm>
#include <tandem/pipeline.hpp>
#include <utility>

#include "communicator/call.hpp"

namespace tandem {
namespace {

using detail::call;
using detail::transfer;
using clock = std::chrono::steady_clock;

constexpr int buffers_each = 2;
static_assert(pipeline_buffers == 2 * buffers_each);
constexpr std::size_t alignment = 64;

std::size_t padded(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// One direction to or from a neighbour, with two buffers used alternately. Without a neighbour it
/// is always ready and empty.
struct buffer_pair {
  detail::peer_channel path;
  flow_id flow = 0;
  transfer* transfers = nullptr;
  std::byte* memory = nullptr;
  std::size_t bytes = 0;  ///< per message

  bool exists() const { return path.on != nullptr; }
  /// @pre micro_batch >= -buffers_each: the first uses of a buffer query the micro-batch before.
  transfer& at(int micro_batch) const {
    return transfers[(micro_batch + buffers_each) % buffers_each];
  }
  mutable_view view(int micro_batch) const {
    if (!exists()) return {};
    const auto turn = static_cast<std::size_t>(micro_batch % buffers_each);
    return {memory + turn * padded(bytes), bytes};
  }
};

class runner {
 public:
  runner(call& c, int micro_batches, pipeline_stage& work, pipeline_observer* observer)
      : call_(c), micro_batches_(micro_batches), work_(work), observer_(observer) {}

  static std::size_t scratch_bytes(const detail::group& g, const pipeline_stage& work) {
    const std::size_t in = g.rank() > 0 ? padded(work.input_bytes()) : 0;
    const std::size_t out = g.rank() + 1 < g.size() ? padded(work.output_bytes()) : 0;
    return pipeline_buffers * (in + out);
  }

  asio::awaitable<void> run(pipeline_kind kind);

 private:
  enum path : std::uint32_t { activations = 0, gradients = 1 };

  asio::awaitable<void> connect();
  void assign_buffers();
  asio::awaitable<void> run_call(pipeline_step step);
  asio::awaitable<void> wait(transfer& t, pipeline_activity why, int micro_batch);
  asio::awaitable<void> until_sent(const buffer_pair& to, int micro_batch);
  void receive(const buffer_pair& from, int micro_batch);
  void report(pipeline_activity what, int micro_batch, clock::time_point begin) const {
    if (observer_ != nullptr) observer_->record(what, micro_batch, begin, clock::now());
  }

  call& call_;
  const int micro_batches_;
  pipeline_stage& work_;
  pipeline_observer* const observer_;
  buffer_pair activations_in_, activations_out_, gradients_in_, gradients_out_;
};

asio::awaitable<void> runner::connect() {
  detail::group& g = *call_.in;
  const int before = g.rank() - 1;
  const int after = g.rank() + 1;
  if (before >= 0 && !g.connected(before)) co_await g.connect(before);
  if (after < g.size() && !g.connected(after)) co_await g.connect(after);
}

void runner::assign_buffers() {
  const detail::group& g = *call_.in;
  transfer* next = call_.transfers.data();
  std::byte* memory = static_cast<std::byte*>(call_.scratch(0, 0).data);
  const auto assign = [&](buffer_pair& to, const detail::peer_channel& neighbour, path what,
                          std::size_t bytes) {
    to = {neighbour, g.flow(detail::group::flow_class::pipeline, what), next, memory, bytes};
    next += buffers_each;
    memory += buffers_each * padded(bytes);
  };
  if (g.rank() > 0) {
    const detail::peer_channel before = g.to(g.rank() - 1);
    assign(activations_in_, before, activations, work_.input_bytes());
    assign(gradients_out_, before, gradients, work_.input_bytes());
  }
  if (g.rank() + 1 < g.size()) {
    const detail::peer_channel after = g.to(g.rank() + 1);
    assign(activations_out_, after, activations, work_.output_bytes());
    assign(gradients_in_, after, gradients, work_.output_bytes());
  }
}

void runner::receive(const buffer_pair& from, int micro_batch) {
  if (!from.exists() || micro_batch >= micro_batches_) return;
  call_.io.recv(from.at(micro_batch), from.path, from.flow, from.view(micro_batch));
}

asio::awaitable<void> runner::wait(transfer& t, pipeline_activity why, int micro_batch) {
  const clock::time_point begin = clock::now();
  while (!call_.io.over(t)) co_await call_.io.until(t);
  report(why, micro_batch, begin);
}

asio::awaitable<void> runner::until_sent(const buffer_pair& to, int micro_batch) {
  if (!to.exists() || call_.io.over(to.at(micro_batch))) co_return;
  co_await wait(to.at(micro_batch), pipeline_activity::send, micro_batch);
}

asio::awaitable<void> runner::run_call(pipeline_step step) {
  const bool is_forward = step.what == pipeline_step::forward;
  const int m = step.micro_batch;
  const buffer_pair& from = is_forward ? activations_in_ : gradients_in_;
  const buffer_pair& to = is_forward ? activations_out_ : gradients_out_;
  call_.at(is_forward ? "forward of micro-batch" : "backward of micro-batch", m);
  if (from.exists() && !call_.io.over(from.at(m))) {
    co_await wait(from.at(m), pipeline_activity::recv, m);
  }
  // The output buffer is free once the micro-batch that used it last has been sent.
  co_await until_sent(to, m - buffers_each);
  const clock::time_point begin = clock::now();
  const const_view in = from.view(m);
  const mutable_view out = to.view(m);
  if (is_forward) {
    co_await work_.forward(m, in, out);
  } else {
    co_await work_.backward(m, in, out);
  }
  report(is_forward ? pipeline_activity::forward : pipeline_activity::backward, m, begin);
  receive(from, m + buffers_each);
  if (to.exists()) call_.io.send(to.at(m), to.path, to.flow, out);
}

asio::awaitable<void> runner::run(pipeline_kind kind) {
  co_await connect();
  assign_buffers();
  for (int m = 0; m < buffers_each; ++m) {
    receive(activations_in_, m);
    receive(gradients_in_, m);
  }
  const detail::group& g = *call_.in;
  const pipeline_schedule steps = make_schedule(kind, g.rank(), g.size(), micro_batches_);
  for (const pipeline_step& step : steps) co_await run_call(step);
  // All inputs are consumed; the last results may still be in flight.
  for (int m = std::max(micro_batches_ - buffers_each, 0); m < micro_batches_; ++m) {
    co_await until_sent(activations_out_, m);
    co_await until_sent(gradients_out_, m);
  }
}

/// Keeps the runner in the coroutine frame while it runs.
asio::awaitable<void> run(call& c, pipeline_kind kind, int micro_batches, pipeline_stage& work,
                          pipeline_observer* observer) {
  runner all(c, micro_batches, work, observer);
  co_await all.run(kind);
}

}  // namespace

asio::awaitable<void> run_pipeline(communicator& stages, pipeline_kind kind, int micro_batches,
                                   pipeline_stage& work, pipeline_observer* observer) {
  const std::shared_ptr<detail::group>& g = stages.internals();
  if (micro_batches < 0) {
    return detail::refuse(
        error(errc::bad_input, fmt::format("run_pipeline: {} micro-batches", micro_batches)));
  }
  detail::lease slot(g, "pipeline", runner::scratch_bytes(*g, work));
  call& c = *slot;
  return detail::run_call(std::move(slot), run(c, kind, micro_batches, work, observer),
                          call::kind::pipeline);
}

}  // namespace tandem
