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

pipeline_kind kind_of(const job& what) {
  return what.requested.schedule == "gpipe" ? pipeline_kind::gpipe : pipeline_kind::one_f_one_b;
}

stage_options stage_of(const job& what, int rank) {
  const rank_location at = what.who.at(rank);
  const auto schedules =
      make_schedules(kind_of(what), what.who.stages(), what.requested.micro_batches);
  return {.first_layer = at.first_layer,
          .last_layer = at.first_layer + at.layers,
          .seed = static_cast<std::uint64_t>(what.requested.seed),
          .sequences = what.sequences(),
          .sequence_length = what.sequence(),
          .stash = tandem::check(schedules).peak_stash[static_cast<std::size_t>(at.stage)]};
}

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

trainer::trainer(const job& what, fabric& over, groups with)
    : job_(what),
      over_(over),
      rank_(over.rank()),
      location_(what.who.at(rank_)),
      model_(what.model, stage_of(what, rank_)),
      world_(std::move(with.world)),
      pipeline_(std::move(*with.pipeline)),
      replicas_(std::move(*with.replicas)),
      rails_(over, timeline_),
      rate_{.peak = what.requested.learning_rate,
            .floor = what.requested.learning_rate / 10,
            .warmup_steps = what.requested.steps / 10,
            .steps = what.requested.steps},
      inputs_(static_cast<std::size_t>(model_.tokens())),
      targets_(inputs_.size()),
      tied_(model_.tied_gradient().size()),
      totals_(model_.squared_norms().size() + 2) {
  metrics_.tokens_per_step = static_cast<double>(what.tokens_per_step());
}

asio::awaitable<void> trainer::run(step_handler after_step) {
  co_await barrier(world_);
  timeline_.start();
  rails_.start();
  const int first_kept = (job_.requested.steps - kept_steps()) / 2;
  for (step_ = 0; step_ < job_.requested.steps; ++step_) {
    timeline_.keep(step_ >= first_kept && step_ < first_kept + kept_steps());
    const time_point begin = timeline::clock::now();
    co_await step(step_ + 1);
    finish_step(begin);
    if (after_step) after_step(metrics_);
  }
}

asio::awaitable<void> trainer::step(int number) {
  loss_sum_ = 0;
  for (serial_replica_ = 0; serial_replica_ < job_.serial_replicas; ++serial_replica_) {
    replica_loss_sum_ = 0;
    model_.begin_step(job_.tokens_per_step());
    co_await run_pipeline(pipeline_, kind_of(job_), job_.requested.micro_batches, *this, this);
    accumulate_replica(serial_replica_);
  }
  co_await sum_gradients();
  co_await exchange_tied_gradients();
  co_await sum_totals();

  const time_point begin = timeline::clock::now();
  std::function<void()> update = [this, number] {
    const std::span<const double> norms(totals_.data(), totals_.size() - 2);
    model_.apply(number, learning_rate(rate_, number), clip_scale(norms, clip_norm));
  };
  co_await compute_.run(std::move(update));
  timeline_.add(activity::update, -1, begin, timeline::clock::now());
}

/// Adds the gradients of the replica just computed to those of the previous ones.
void trainer::accumulate_replica(int serial_replica) {
  loss_sum_ += replica_loss_sum_;
  if (job_.serial_replicas == 1) return;
  const std::span<float> fresh = model_.gradients();
  if (serial_replica == 0) {
    accumulated_gradients_.assign(fresh.begin(), fresh.end());
  } else {
    for (std::size_t i = 0; i < fresh.size(); ++i) accumulated_gradients_[i] += fresh[i];
  }
  if (serial_replica + 1 == job_.serial_replicas)
    std::copy(accumulated_gradients_.begin(), accumulated_gradients_.end(), fresh.begin());
}

asio::awaitable<void> trainer::sum_gradients() {
  if (replicas_.size() == 1) co_return;
  const time_point begin = timeline::clock::now();
  const mutable_view gradients(model_.gradients());
  co_await all_reduce(replicas_, gradients, data_type::float32, reduce_op::sum);
  timeline_.add(activity::all_reduce, -1, begin, timeline::clock::now());
}

asio::awaitable<void> trainer::exchange_tied_gradients() {
  if (!tied_.empty()) {
    const time_point begin = timeline::clock::now();
    const int other_end = model_.is_first() ? pipeline_.size() - 1 : 0;
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
  const double loss = totals_[totals_.size() - 2] / static_cast<double>(job_.tokens_per_step());
  if (!std::isfinite(loss)) {
    throw error(errc::bad_input, fmt::format("the loss of step {} is not finite", step_ + 1),
                "train with a lower --learning-rate");
  }
  metrics_.loss.push_back(loss);
  metrics_.step_s.push_back(took_s);
  metrics_.wait_share.push_back(std::clamp(waited_s / (took_s * world_.size()), 0.0, 1.0));
}

/// Loads the tokens of a micro-batch; only the first and last stage use them.
void trainer::load(int micro_batch) {
  if (!model_.is_first() && !model_.is_last()) return;
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

asio::awaitable<void> trainer::forward(int micro_batch, const_view in, mutable_view out) {
  std::function<void()> work = [this, micro_batch, in, out] {
    load(micro_batch);
    stage_input<float> input;
    if (model_.is_first()) input.tokens = inputs_;
    if (!model_.is_first()) input.activations = numbers<float>(in);
    if (model_.is_last()) input.targets = targets_;
    replica_loss_sum_ += model_.forward(micro_batch, input, numbers<float>(out));
  };
  co_await compute_.run(std::move(work));
}

asio::awaitable<void> trainer::backward(int micro_batch, const_view grad_out,
                                        mutable_view grad_in) {
  std::function<void()> work = [this, micro_batch, grad_out, grad_in] {
    model_.backward(micro_batch, numbers<float>(const_view(grad_out)), numbers<float>(grad_in));
  };
  co_await compute_.run(std::move(work));
}

void trainer::record(pipeline_activity what, int micro_batch, time_point begin, time_point end) {
  activity kind = activity::forward;
  switch (what) {
    case pipeline_activity::forward:
      kind = activity::forward;
      break;
    case pipeline_activity::backward:
      kind = activity::backward;
      break;
    case pipeline_activity::recv:
      kind = activity::recv;
      break;
    case pipeline_activity::send:
      kind = activity::send;
      break;
  }
  timeline_.add(kind, micro_batch, begin, end);
}

}  // namespace tandem::train
