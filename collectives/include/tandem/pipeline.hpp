/// Pipelines and their schedules.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <tandem/communicator.hpp>
#include <vector>

#pragma GCC visibility push(default)

namespace tandem {

/// The order in which a pipeline stage computes its micro-batches.
/// gpipe: all forwards, then all backwards (Huang et al. 2019, GPipe), but with the backwards in
/// micro-batch order as well. one_f_one_b: as many forwards as there are later stages, then one
/// forward and one backward alternately, then the remaining backwards (Narayanan et al. 2019,
/// PipeDream; 2021, Megatron-LM): the same time with fewer stashed micro-batches.
enum class pipeline_kind : std::uint8_t { gpipe, one_f_one_b };
/// "gpipe" or "one_f_one_b".
std::string_view name(pipeline_kind kind) noexcept;

/// One computation of a stage.
struct pipeline_step {
  /// The direction of the computation.
  enum kind : std::uint8_t { forward, backward };
  kind what = forward;
  int micro_batch = 0;

  bool operator==(const pipeline_step&) const = default;
};

/// The steps of one stage, in order.
using pipeline_schedule = std::vector<pipeline_step>;

/// The maximum of messages in flight between two neighbours in one direction in `run_pipeline`: two
/// buffers at each end.
inline constexpr int pipeline_buffers = 4;

/// Both kinds compute forwards and backwards in the order 0, 1, 2..., so that gradients are summed
/// in the same order for any number of stages and either kind.
/// @pre 0 <= stage < stages, micro_batches >= 0.
pipeline_schedule make_schedule(pipeline_kind kind, int stage, int stages, int micro_batches);
/// The schedules of all stages, by stage.
std::vector<pipeline_schedule> make_schedules(pipeline_kind kind, int stages, int micro_batches);

/// The result of simulating a set of schedules.
struct schedule_check {
  std::string problem;          ///< empty: every stage completed
  std::vector<int> peak_stash;  ///< by stage: maximum of micro-batches between the end of their
                                ///< forward and the end of their backward
  std::vector<std::vector<int>>
      begin_slots;  ///< by stage and step, for the steps that ran; every step lasts one slot
  int slots = 0;    ///< until the last stage has completed
};

/// Simulates the schedules of all stages together as `run_pipeline` would run them, with messages
/// that take no time: a step waits for its input, and for a free output buffer while `buffers`
/// messages are in flight to that neighbour. Finds steps that are missing, repeated or out of
/// order, and deadlocks between stages.
schedule_check check(const std::vector<pipeline_schedule>& stages, int buffers = pipeline_buffers);

/// All stages as a grid, a line per stage and a column per slot: F0 F1 .. B0. Ends with the problem
/// that `check` found, if any.
std::string print(const std::vector<pipeline_schedule>& stages);

/// The computation of one rank of a pipeline. The runner awaits its calls one at a time on the
/// communicator's executor; transfers progress while they are suspended, so run long computations
/// on another thread:
///
///   co_await asio::co_spawn(pool, compute(...), asio::use_awaitable);
///
/// A view is valid until the call's awaitable completes; the stage must save what backward needs.
/// Host memory.
class pipeline_stage {
 public:
  virtual ~pipeline_stage() = default;
  /// Bytes of one micro-batch's activations, from the previous stage and to the next one; gradients
  /// have the same length. Not called if there is no such neighbour. output_bytes of a stage equals
  /// input_bytes of the next one.
  virtual std::size_t input_bytes() const = 0;
  virtual std::size_t output_bytes() const = 0;
  /// `in` is empty on the first stage, `out` on the last.
  virtual asio::awaitable<void> forward(int micro_batch, const_view in, mutable_view out) = 0;
  /// `grad_out` is empty on the last stage, `grad_in` on the first.
  virtual asio::awaitable<void> backward(int micro_batch, const_view grad_out,
                                         mutable_view grad_in) = 0;
};

/// The activities of a pipeline rank. `recv`: it waits for an input; `send`: it waits for a buffer
/// that is still being sent, or at the end for the last sends.
enum class pipeline_activity : std::uint8_t { forward, backward, recv, send };

/// Records the time of each activity on the communicator's executor, when the activity ends;
/// activities never overlap. Transfers concurrent with the computation are not reported. Must not
/// throw.
class pipeline_observer {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  virtual ~pipeline_observer() = default;
  virtual void record(pipeline_activity what, int micro_batch, time_point begin,
                      time_point end) = 0;
};

/// Runs one rank's stage of a pipeline (its rank in `stages`) over all micro-batches of a step, in
/// the order of `make_schedule`. All ranks of `stages` call it with the same kind and count.
///
/// Activations and gradients travel on separate flows. Two receives are posted ahead in each
/// direction, and two results may be in flight while the next is computed: at most
/// 4 (input_bytes + output_bytes) of memory, which the communicator keeps for the next call.
///
/// @par Errors  As under communicator, Failure; a stage's exception is rethrown unchanged on this
///   rank and ends every other rank with `errc::peer_lost` and its text. A failed transfer is
///   thrown after the current call of the stage has ended. `errc::bad_input`: micro_batches < 0, or
///   a pipeline is already in progress on this communicator. `errc::call_mismatch`: neighbours
///   disagree on a length.
/// @par Cancellation  Terminal, passed on to the stage's call; ends the communicator. Completes
///   only when neither the stage nor a transfer is in progress.
asio::awaitable<void> run_pipeline(communicator& stages, pipeline_kind kind, int micro_batches,
                                   pipeline_stage& work, pipeline_observer* observer = nullptr);

}  // namespace tandem

#pragma GCC visibility pop
