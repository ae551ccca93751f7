#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <tandem/communicator.hpp>
#include <tandem/fabric.hpp>
#include <tandem/pipeline.hpp>
#include <vector>

#include "compute.hpp"
#include "job.hpp"
#include "rail_watch.hpp"
#include "rank_model.hpp"
#include "report.hpp"

namespace tandem::train {

/// Communicators of one rank.
struct groups {
  communicator world;
  std::unique_ptr<communicator> pipeline;  ///< the stages of its replica, by stage
  std::unique_ptr<communicator> replicas;  ///< the replicas of its stage, by replica
};

/// Collective over all ranks. With a profile (`settings::profile`) the collectives follow the plan
/// derived from it, else `plan::standard`: a plan from a probe may choose another algorithm in the
/// next run, which sums in another order, so that runs would not be bitwise reproducible.
/// @par Errors Those of `make_communicator` and `split`.
asio::awaitable<groups> make_groups(const job& what, fabric& over);

/// What a rank keeps when its job goes on with fewer ranks.
struct training_state {
  training_state(const job& what, int rank) : model(what, rank, schedule_of(what)) {}

  int steps_done() const noexcept { return static_cast<int>(metrics.loss.size()); }
  /// Undoes the last step. @pre `rank_model::save` was called before it.
  void undo_step();

  rank_model model;
  history metrics;
};

/// One rank of a training. Each step:
///   pipeline over the micro-batches -> sum of gradients over the stage's replicas -> exchange of
///   the tied embedding's gradients between the first and last stage -> one all-reduce of loss,
///   norms and waiting time over all ranks -> clip and AdamW.
/// Computation runs on a thread of its own. The same job gives the same bits in every run and with
/// any number of stages and any schedule.
class trainer final : private pipeline_stage, private pipeline_observer {
 public:
  /// @pre `over` has as many ranks as the job's layout; it, the job and the state outlive the
  /// trainer.
  trainer(const job& what, fabric& over, groups with, training_state& state);

  using step_handler = std::function<void(const history& so_far)>;
  /// Before `run`: where the ranks lost others, they may differ by one step, and all go on from the
  /// lowest. Collective.
  asio::awaitable<void> agree_on_first_step();
  /// Runs the steps that are not done yet. `after_step` is called after each, on the fabric's
  /// executor. The timeline's origin is a barrier.
  /// @par Errors Those of the communicators; all ranks of the job fail together.
  asio::awaitable<void> run(step_handler after_step);

  /// Current state of this rank's rails, by NIC.
  std::vector<nic_status> rail_status() { return rails_.live(); }

  /// The records of all ranks, by rank, on rank 0; empty elsewhere. Collective, after `run`.
  asio::awaitable<std::vector<rank_record>> collect();

  /// Number of steps whose moments are kept: a few from the middle of the run.
  int kept_steps() const noexcept { return std::min(3, job_.requested.steps - first_step_); }

 private:
  std::size_t input_bytes(int) const override { return model_.activations() * sizeof(float); }
  std::size_t output_bytes(int) const override { return model_.activations() * sizeof(float); }
  asio::awaitable<void> forward(pipeline_step step, const_view in, mutable_view out) override;
  asio::awaitable<void> backward(pipeline_step step, const_view grad_out,
                                 mutable_view grad_in) override;
  asio::awaitable<void> backward_input(pipeline_step step, const_view grad_out,
                                       mutable_view grad_in) override;
  asio::awaitable<void> backward_weights(pipeline_step step) override;
  void record(const entry& done) override;

  asio::awaitable<void> step(int number);
  asio::awaitable<void> sum_gradients();
  asio::awaitable<void> exchange_tied_gradients();
  /// Sums over all ranks: afterwards `totals_` holds the squared norms, the loss and the waiting
  /// time.
  asio::awaitable<void> sum_totals();
  void load(int micro_batch);
  void finish_step(time_point begin);

  const job& job_;
  fabric& over_;
  int rank_;
  rank_location location_;
  pipeline_schedule schedule_;
  training_state& state_;
  rank_model& model_;
  communicator world_;
  communicator pipeline_;
  communicator replicas_;
  timeline timeline_;
  rail_watch rails_;
  history& metrics_;
  learning_rate_schedule rate_;
  std::vector<std::uint8_t> inputs_, targets_;
  std::vector<float> tied_;  ///< the gradient of the tied embedding from the other end
  std::vector<double> totals_;
  int first_step_ = 0;
  int step_ = 0;  ///< from 0
  int serial_replica_ = 0;
  double loss_sum_ = 0;
  double replica_loss_sum_ = 0;
  double waited_before_s_ = 0;  ///< by all ranks, up to the previous step's totals
  compute_thread compute_;      ///< last: its destructor waits for work that uses the rest
};

}  // namespace tandem::train
