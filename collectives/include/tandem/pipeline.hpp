/// Pipelines: the stages of a model on several ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <tandem/communicator.hpp>
#include <tandem/pipeline_schedule.hpp>

#pragma GCC visibility push(default)

namespace tandem {

/// The computation of one rank of a pipeline. The runner awaits its calls one at a time on the
/// communicator's executor; transfers progress while they are suspended, so run long computations
/// on another thread:
///
///   co_await asio::co_spawn(pool, compute(...), asio::use_awaitable);
///
/// A view is valid until the call's awaitable completes, and on a device no work of the call may
/// access it later; the stage must save what the backward needs. `step` says which chunk and
/// micro-batch a call is for.
class pipeline_stage {
 public:
  virtual ~pipeline_stage() = default;
  /// Bytes of one micro-batch's activations, from the previous stage into the chunk and from it to
  /// the next one; gradients have the same length. Not called if there is no such stage.
  /// output_bytes of a stage equals input_bytes of the next one.
  virtual std::size_t input_bytes(int chunk) const = 0;
  virtual std::size_t output_bytes(int chunk) const = 0;
  /// The memory of the buffers that it is given: kind and device of this view count. Host memory
  /// by default.
  virtual const_view memory() const { return {}; }
  /// `in` is empty on the first stage, `out` on the last.
  virtual asio::awaitable<void> forward(pipeline_step step, const_view in, mutable_view out) = 0;
  /// Both parts. `grad_out` is empty on the last stage, `grad_in` on the first.
  virtual asio::awaitable<void> backward(pipeline_step step, const_view grad_out,
                                         mutable_view grad_in) = 0;
  /// The input part only, after which `grad_in` is sent; the stage saves what the weight part
  /// needs. By default the whole backward, so that every stage runs with every schedule.
  virtual asio::awaitable<void> backward_input(pipeline_step step, const_view grad_out,
                                               mutable_view grad_in);
  /// The weight part. By default nothing.
  virtual asio::awaitable<void> backward_weights(pipeline_step step);
};

/// The activities of a pipeline rank. `recv`: it waits for an input; `send`: it waits for a buffer
/// that is still being sent, or at the end for the last sends.
enum class pipeline_activity : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weights,
  recv,
  send
};

/// Records the time of each activity on the communicator's executor, when the activity ends;
/// activities never overlap. Transfers concurrent with the computation are not reported. Must not
/// throw.
class pipeline_observer {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  /// What, for which micro-batch of which chunk, and when.
  struct entry {
    pipeline_activity what;
    int micro_batch;
    int chunk;
    time_point begin, end;
  };
  virtual ~pipeline_observer() = default;
  virtual void record(const entry& done) = 0;
};

/// Runs one rank's stages of a pipeline (its rank in `group`) over all micro-batches of a training
/// step, in the order of the schedule. All ranks of `group` call it with the same schedule.
///
/// Activations and gradients of each chunk travel on flows of their own. Two receives are posted
/// ahead on each, and two results may be in flight while the next is computed: 4 (input_bytes +
/// output_bytes) of memory for each chunk, on the stage's device, which the communicator keeps for
/// the next call. Between two chunks of one rank nothing is copied. No schedule that `check`
/// accepts can deadlock, as it simulates these buffers.
///
/// Costs one simulation of the schedule (`check`). The communicator keeps the last one that passed,
/// so that a call with an equal one costs a comparison.
///
/// @par Errors  As under communicator, Failure; a stage's exception is rethrown unchanged on this
///   rank and ends every other rank with `errc::peer_lost` and its text. A failed transfer is
///   thrown after the current call of the stage has ended. `errc::bad_input`: `check` finds a
///   problem, which the error names, the schedule is not for as many ranks as the group has, or a
///   pipeline is already in progress on this communicator. `errc::call_mismatch`: neighbours
///   disagree on a length or have different schedules; a rank whose schedule has no micro-batches
///   at all ends before it could notice, and the others at their deadline.
/// @par Cancellation  Terminal, passed on to the stage's call; ends the communicator. Completes
///   only when neither the stage nor a transfer is in progress.
asio::awaitable<void> run_pipeline(communicator& group, const pipeline_schedule& all,
                                   pipeline_stage& work, pipeline_observer* observer = nullptr);
/// The same with the schedule that the kind has for stages of equal costs, and its usual chunks. It
/// is made again when the kind or the number of micro-batches differs from the last call's.
asio::awaitable<void> run_pipeline(communicator& group, pipeline_kind kind, int micro_batches,
                                   pipeline_stage& work, pipeline_observer* observer = nullptr);

}  // namespace tandem

#pragma GCC visibility pop
