#include "trainer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <cmath>
#include <numeric>
#include <tandem/async.hpp>
#include <tandem/collectives.hpp>
#include <utility>

namespace tandem::train {
namespace {

constexpr double clip_norm = 1.0;
constexpr std::uint16_t tied_tag = 1;

template <class Number>
std::span<Number> numbers(mutable_view view) {
  return {static_cast<Number*>(view.data), view.bytes / sizeof(Number)};
}
template <class Number>
std::span<const Number> numbers(const_view view) {
  return {static_cast<const Number*>(view.data), view.bytes / sizeof(Number)};
}

asio::awaitable<void> receive_exact(communicator& from, int peer, mutable_view into) {
  const std::size_t bytes = co_await from.recv(peer, into, tied_tag);
  if (bytes != into.bytes)
    throw error(errc::call_mismatch,
                "the tied embedding differs in size between the first and the last stage");
}

asio::awaitable<communicator> make_world(const settings& engine, fabric& over) {
  if (engine.profile.empty()) co_return communicator(over, engine);
  co_return co_await make_communicator(over, engine);
}

}  // namespace

asio::awaitable<groups> make_groups(const job& what, fabric& over) {
  const rank_location at = what.who.at(over.rank());
  communicator world = co_await make_world(what.requested.engine, over);
  std::unique_ptr<communicator> pipeline = co_await world.split(at.replica, at.stage);
  std::unique_ptr<communicator> replicas = co_await world.split(at.stage, at.replica);
  co_return groups{std::move(world), std::move(pipeline), std::move(replicas)};
}

void training_state::undo_step() {
  model.roll_back();
  metrics.loss.pop_back();
  metrics.step_s.pop_back();
  metrics.wait_share.pop_back();
  metrics.tokens.pop_back();
}

trainer::trainer(const job& what, fabric& over, groups with, training_state& state)
    : job_(what),
      over_(over),
      rank_(over.rank()),
      location_(what.who.at(rank_)),
      schedule_(schedule_of(what)),
      state_(state),
      model_(state.model),
      world_(std::move(with.world)),
      pipeline_(std::move(*with.pipeline)),
      replicas_(std::move(*with.replicas)),
      rails_(over, timeline_),
      metrics_(state.metrics),
      rate_{.peak = what.requested.learning_rate,
            .floor = what.requested.learning_rate / 10,
            .warmup_steps = what.requested.steps / 10,
            .steps = what.requested.steps},
      inputs_(static_cast<std::size_t>(model_.tokens())),
      targets_(inputs_.size()),
      tied_(model_.tied_gradient().size()),
      totals_(model_.squared_norms().size() + 2) {}

/// A rank may have ended a step, with all others' sums, that another did not. None is further
/// ahead: the next step needs the sums of all.
asio::awaitable<void> trainer::agree_on_first_step() {
  std::int64_t lowest = state_.steps_done();
  const mutable_view view(&lowest, sizeof lowest);
  co_await all_reduce(world_, view, data_type::int64, reduce_op::minimum);
  if (state_.steps_done() > lowest) state_.undo_step();
  first_step_ = state_.steps_done();
}

asio::awaitable<void> trainer::run(step_handler after_step) {
  co_await barrier(world_);
  timeline_.start();
  rails_.start();
  const int first_kept = first_step_ + (job_.requested.steps - first_step_ - kept_steps()) / 2;
  for (step_ = first_step_; step_ < job_.requested.steps; ++step_) {
    timeline_.keep(step_ >= first_kept && step_ < first_kept + kept_steps());
    const time_point begin = timeline::clock::now();
    co_await step(step_ + 1);
    finish_step(begin);
    if (after_step) after_step(metrics_);
  }
}

asio::awaitable<void> trainer::step(int number) {
  loss_sum_ = 0;
  const int serial_replicas = job_.serial_replicas_at(step_);
  for (serial_replica_ = 0; serial_replica_ < serial_replicas; ++serial_replica_) {
    replica_loss_sum_ = 0;
    model_.begin_step(job_.tokens_at(step_));
    const time_point begin = timeline::clock::now();
    co_await run_pipeline(pipeline_, schedule_, *this, this);
    timeline_.add_pipeline(begin, timeline::clock::now());
    loss_sum_ += replica_loss_sum_;
    model_.accumulate(serial_replica_, serial_replicas);
  }
  co_await sum_gradients();
  co_await exchange_tied_gradients();
  co_await sum_totals();

  const time_point begin = timeline::clock::now();
  std::function<void()> update = [this, number] {
    if (job_.requested.survive) model_.save();
    const std::span<const double> norms(totals_.data(), totals_.size() - 2);
    model_.apply(number, learning_rate(rate_, number), clip_scale(norms, clip_norm));
  };
  co_await compute_.run(std::move(update));
  timeline_.add(activity::update, -1, begin, timeline::clock::now());
}

asio::awaitable<void> trainer::sum_gradients() {
  if (replicas_.size() == 1) co_return;
  const time_point begin = timeline::clock::now();
  for (basic_stage<float>& chunk : model_.chunks()) {
    const mutable_view gradients(chunk.gradients());
    co_await all_reduce(replicas_, gradients, data_type::float32, reduce_op::sum);
  }
  timeline_.add(activity::all_reduce, -1, begin, timeline::clock::now());
}

asio::awaitable<void> trainer::exchange_tied_gradients() {
  if (!tied_.empty()) {
    const time_point begin = timeline::clock::now();
    const int other_end =
        location_.stage == 0
            ? location_of(schedule_.placement, schedule_.stages() - 1, schedule_.size()).rank
            : 0;
    std::vector<asio::awaitable<void>> both_ways;
    both_ways.push_back(pipeline_.send(other_end, const_view(model_.tied_gradient()), tied_tag));
    both_ways.push_back(receive_exact(pipeline_, other_end, mutable_view(tied_)));
    co_await when_all(std::move(both_ways));
    timeline_.add(activity::recv, -1, begin, timeline::clock::now());
  }
  model_.finish_gradients(tied_);
}

asio::awaitable<void> trainer::sum_totals() {
  const time_point begin = timeline::clock::now();
  // Replicas have equal norms: only the first contributes them; adding zeros changes no bit.
  if (location_.replica == 0) {
    const std::vector<double> norms = model_.squared_norms();
    std::copy(norms.begin(), norms.end(), totals_.begin());
  } else {
    std::fill(totals_.begin(), totals_.end(), 0.0);
  }
  totals_[totals_.size() - 2] = loss_sum_;
  totals_[totals_.size() - 1] = timeline_.waited_s();
  const mutable_view totals(totals_);
  co_await all_reduce(world_, totals, data_type::float64, reduce_op::sum);
  if (world_.size() > 1) {
    timeline_.add(activity::all_reduce, -1, begin, timeline::clock::now());
  }
}

void trainer::finish_step(time_point begin) {
  const double took_s = std::chrono::duration<double>(timeline::clock::now() - begin).count();
  const double waited_s = totals_.back() - std::exchange(waited_before_s_, totals_.back());
  const double loss = totals_[totals_.size() - 2] / static_cast<double>(job_.tokens_at(step_));
  if (!std::isfinite(loss)) {
    throw error(errc::bad_input, fmt::format("the loss of step {} is not finite", step_ + 1),
                "train with a lower --learning-rate");
  }
  metrics_.loss.push_back(loss);
  metrics_.step_s.push_back(took_s);
  metrics_.tokens.push_back(static_cast<double>(job_.tokens_at(step_)));
  metrics_.wait_share.push_back(std::clamp(waited_s / (took_s * world_.size()), 0.0, 1.0));
}

/// Loads the tokens of a micro-batch; only the first and last stage use them.
void trainer::load(int micro_batch) {
  const auto length = static_cast<std::size_t>(job_.sequence());
  const int replica = location_.replica + serial_replica_;
  const int first = (replica * job_.requested.micro_batches + micro_batch) * job_.sequences();
  for (std::size_t i = 0; i < static_cast<std::size_t>(job_.sequences()); ++i) {
    sample_sequence(*job_.text, static_cast<std::uint64_t>(job_.requested.seed),
                    static_cast<std::uint64_t>(step_), static_cast<std::uint64_t>(first) + i,
                    std::span(inputs_).subspan(i * length, length),
                    std::span(targets_).subspan(i * length, length));
  }
}

asio::awaitable<void> trainer::forward(pipeline_step step, const_view in, mutable_view out) {
  std::function<void()> work = [this, step, in, out] {
    basic_stage<float>& chunk = model_.chunk(step.chunk);
    if (chunk.is_first() || chunk.is_last()) load(step.micro_batch);
    stage_input<float> input;
    if (chunk.is_first()) input.tokens = inputs_;
    if (!chunk.is_first()) input.activations = numbers<float>(in);
    if (chunk.is_last()) input.targets = targets_;
    replica_loss_sum_ += chunk.forward(step.micro_batch, input, numbers<float>(out));
  };
  co_await compute_.run(std::move(work));
}

asio::awaitable<void> trainer::backward(pipeline_step step, const_view grad_out,
                                        mutable_view grad_in) {
  std::function<void()> work = [this, step, grad_out, grad_in] {
    model_.chunk(step.chunk)
        .backward(step.micro_batch, numbers<float>(grad_out), numbers<float>(grad_in));
  };
  co_await compute_.run(std::move(work));
}

asio::awaitable<void> trainer::backward_input(pipeline_step step, const_view grad_out,
                                              mutable_view grad_in) {
  std::function<void()> work = [this, step, grad_out, grad_in] {
    model_.chunk(step.chunk)
        .backward_input(step.micro_batch, numbers<float>(grad_out), numbers<float>(grad_in));
  };
  co_await compute_.run(std::move(work));
}

asio::awaitable<void> trainer::backward_weights(pipeline_step step) {
  std::function<void()> work = [this, step] {
    model_.chunk(step.chunk).backward_weights(step.micro_batch);
  };
  co_await compute_.run(std::move(work));
}

void trainer::record(const entry& done) {
  activity kind = activity::forward;
  switch (done.what) {
    case pipeline_activity::forward:
      kind = activity::forward;
      break;
    case pipeline_activity::backward:
    case pipeline_activity::backward_input:
      kind = activity::backward;
      break;
    case pipeline_activity::backward_weights:
      kind = activity::backward_weights;
      break;
    case pipeline_activity::recv:
      kind = activity::recv;
      break;
    case pipeline_activity::send:
      kind = activity::send;
      break;
  }
  timeline_.add(kind, done.micro_batch, done.begin, done.end);
}

}  // namespace tandem::train
