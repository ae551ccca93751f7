#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tandem/pipeline.hpp>
#include <utility>

#include "communicator/call.hpp"
#include "pipeline/buffers.hpp"

namespace tandem {
namespace detail {

/// A schedule that is right for the ranks of a group.
struct checked_pipeline {
  pipeline_schedule all;
  std::uint64_t hash;
  std::optional<pipeline_kind> kind;  ///< that it was made for; empty: the caller made it
};

}  // namespace detail

namespace {

using detail::call;
using detail::checked_pipeline;
using detail::chunk_buffers;
using detail::message_ring;
using detail::transfer;
using clock = std::chrono::steady_clock;

const message_ring no_messages;

using checked_ptr = std::shared_ptr<const checked_pipeline>;

pipeline_activity activity_of(pipeline_step::kind what) {
  switch (what) {
    case pipeline_step::forward:
      return pipeline_activity::forward;
    case pipeline_step::backward:
      return pipeline_activity::backward;
    case pipeline_step::backward_input:
      return pipeline_activity::backward_input;
    case pipeline_step::backward_weights:
      break;
  }
  return pipeline_activity::backward_weights;
}

const char* phase_of(pipeline_step::kind what) {
  switch (what) {
    case pipeline_step::forward:
      return "forward of micro-batch";
    case pipeline_step::backward:
      return "backward of micro-batch";
    case pipeline_step::backward_input:
      return "backward input part of micro-batch";
    case pipeline_step::backward_weights:
      break;
  }
  return "backward weight part of micro-batch";
}

class runner {
 public:
  runner(call& c, checked_ptr checked, pipeline_stage& work, pipeline_observer* observer)
      : call_(c),
        checked_(std::move(checked)),
        all_(checked_->all),
        work_(work),
        observer_(observer) {}

  asio::awaitable<void> run();

 private:
  asio::awaitable<void> connect();
  asio::awaitable<void> run_step(pipeline_step step);
  asio::awaitable<void> compute(pipeline_step step, const_view in, mutable_view out);
  asio::awaitable<void> wait(transfer& t, pipeline_activity why, pipeline_step step);
  asio::awaitable<void> until_sent(const message_ring& to, pipeline_step step, int micro_batch);
  void receive(const message_ring& from, int micro_batch);
  void report(pipeline_activity what, pipeline_step step, clock::time_point begin) const {
    if (observer_ != nullptr)
      observer_->record({what, step.micro_batch, step.chunk, begin, clock::now()});
  }

  call& call_;
  const checked_ptr checked_;
  const pipeline_schedule& all_;
  pipeline_stage& work_;
  pipeline_observer* const observer_;
  std::vector<chunk_buffers> chunks_;
};

asio::awaitable<void> runner::connect() {
  detail::group& g = *call_.in;
  for (int chunk = 0; chunk < all_.chunks; ++chunk) {
    const int stage = stage_of(all_.placement, {g.rank(), chunk}, g.size());
    for (const int next_to_it : {stage - 1, stage + 1}) {
      if (next_to_it < 0 || next_to_it == all_.chunks * g.size()) continue;
      const int peer = location_of(all_.placement, next_to_it, g.size()).rank;
      if (peer != g.rank() && !g.connected(peer)) co_await g.connect(peer);
    }
  }
}

void runner::receive(const message_ring& from, int micro_batch) {
  if (!from.is_remote() || micro_batch >= all_.micro_batches) return;
  call_.io.recv(from.at(micro_batch), from.path, from.flow, from.view(micro_batch));
}

asio::awaitable<void> runner::wait(transfer& t, pipeline_activity why, pipeline_step step) {
  const clock::time_point begin = clock::now();
  while (!call_.io.over(t)) co_await call_.io.until(t);
  report(why, step, begin);
}

asio::awaitable<void> runner::until_sent(const message_ring& to, pipeline_step step,
                                         int micro_batch) {
  if (micro_batch < 0 || !to.is_remote() || call_.io.over(to.at(micro_batch))) co_return;
  step.micro_batch = micro_batch;
  co_await wait(to.at(micro_batch), pipeline_activity::send, step);
}

asio::awaitable<void> runner::compute(pipeline_step step, const_view in, mutable_view out) {
  switch (step.what) {
    case pipeline_step::forward:
      return work_.forward(step, in, out);
    case pipeline_step::backward:
      return work_.backward(step, in, out);
    case pipeline_step::backward_input:
      return work_.backward_input(step, in, out);
    case pipeline_step::backward_weights:
      break;
  }
  return work_.backward_weights(step);
}

asio::awaitable<void> runner::run_step(pipeline_step step) {
  const bool has_messages = step.what != pipeline_step::backward_weights;
  const bool is_forward = step.what == pipeline_step::forward;
  const chunk_buffers& chunk = chunks_[static_cast<std::size_t>(step.chunk)];
  const message_ring& from = !has_messages ? no_messages
                             : is_forward  ? chunk.activations_in
                                           : chunk.gradients_in;
  const message_ring& to = !has_messages ? no_messages
                           : is_forward  ? chunk.activations_out
                                         : chunk.gradients_out;
  const int m = step.micro_batch;
  call_.at(phase_of(step.what), m);
  if (from.is_remote() && !call_.io.over(from.at(m))) {
    co_await wait(from.at(m), pipeline_activity::recv, step);
  }
  // The output buffer is free once the micro-batch that used it last has been sent.
  co_await until_sent(to, step, m - detail::buffers_each_end);
  const clock::time_point begin = clock::now();
  const mutable_view out = to.view(m);
  co_await compute(step, from.view(m), out);
  report(activity_of(step.what), step, begin);
  receive(from, m + detail::buffers_each_end);
  if (to.is_remote()) call_.io.send(to.at(m), to.path, to.flow, out);
}

asio::awaitable<void> runner::run() {
  co_await connect();
  // Messages of another schedule fail with a mismatch.
  call_.io.set_signature({checked_->hash, 0});
  chunks_ = detail::assign_buffers(call_, all_.placement, all_.chunks, work_);
  for (int m = 0; m < detail::buffers_each_end; ++m) {
    for (const chunk_buffers& chunk : chunks_) {
      receive(chunk.activations_in, m);
      receive(chunk.gradients_in, m);
    }
  }
  const pipeline_steps& own = all_.ranks[static_cast<std::size_t>(call_.in->rank())];
  for (const pipeline_step& step : own) co_await run_step(step);
  // All inputs are consumed; the last results may still be in flight.
  for (int c = 0; c < all_.chunks; ++c) {
    const chunk_buffers& chunk = chunks_[static_cast<std::size_t>(c)];
    for (int m = all_.micro_batches - detail::buffers_each_end; m < all_.micro_batches; ++m) {
      co_await until_sent(chunk.activations_out, {pipeline_step::forward, m, c}, m);
      co_await until_sent(chunk.gradients_out, {pipeline_step::backward, m, c}, m);
    }
  }
}

/// Keeps the runner in the coroutine frame while it runs.
asio::awaitable<void> run(call& c, checked_ptr checked, pipeline_stage& work,
                          pipeline_observer* observer) {
  runner all(c, std::move(checked), work, observer);
  co_await all.run();
}

error bad_schedule(const std::string& problem) {
  return error(errc::bad_input, "run_pipeline: " + problem);
}

checked_ptr keep(detail::group& g, checked_pipeline checked) {
  const auto kept = std::make_shared<const checked_pipeline>(std::move(checked));
  g.keep_pipeline(kept);
  return kept;
}

/// Simulates the schedule unless it is the last one. It is compared as a whole, since a bad one may
/// have the hash of a good one.
checked_ptr checked(detail::group& g, const pipeline_schedule& all) {
  const checked_ptr& last = g.last_pipeline();
  if (last != nullptr && last->all == all) return last;
  if (all.size() != g.size()) {
    throw bad_schedule(
        fmt::format("a schedule of {} ranks in a group of {}", all.size(), g.size()));
  }
  const std::string problem = check(all).problem;
  if (!problem.empty()) throw bad_schedule(problem);
  return keep(g, {all, hash_of(all), {}});
}

/// The schedule of that kind, which needs no check.
checked_ptr made(detail::group& g, pipeline_kind kind, int micro_batches) {
  const checked_ptr& last = g.last_pipeline();
  if (last != nullptr && last->kind == kind && last->all.micro_batches == micro_batches)
    return last;
  pipeline_schedule all =
      make_schedule({.kind = kind, .ranks = g.size(), .micro_batches = micro_batches});
  const std::uint64_t hash = hash_of(all);
  return keep(g, {std::move(all), hash, kind});
}

asio::awaitable<void> start(const std::shared_ptr<detail::group>& g, checked_ptr checked,
                            pipeline_stage& work, pipeline_observer* observer) {
  detail::lease slot(g, "pipeline", detail::buffer_bytes(*g, checked->all, work),
                     g->queue_for(work.memory()));
  call& c = *slot;
  return detail::run_call(std::move(slot), run(c, std::move(checked), work, observer),
                          call::kind::pipeline);
}

}  // namespace

asio::awaitable<void> pipeline_stage::backward_input(pipeline_step step, const_view grad_out,
                                                     mutable_view grad_in) {
  return backward(step, grad_out, grad_in);
}

asio::awaitable<void> pipeline_stage::backward_weights(pipeline_step) {
  co_return;
}

asio::awaitable<void> run_pipeline(communicator& group, const pipeline_schedule& all,
                                   pipeline_stage& work, pipeline_observer* observer) {
  try {
    const std::shared_ptr<detail::group>& g = group.internals();
    return start(g, checked(*g, all), work, observer);
  } catch (const error& failure) {
    return detail::refuse(failure);
  }
}

asio::awaitable<void> run_pipeline(communicator& group, pipeline_kind kind, int micro_batches,
                                   pipeline_stage& work, pipeline_observer* observer) {
  try {
    const std::shared_ptr<detail::group>& g = group.internals();
    return start(g, made(*g, kind, micro_batches), work, observer);
  } catch (const error& failure) {
    return detail::refuse(failure);
  }
}

}  // namespace tandem
