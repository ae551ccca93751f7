#pragma once

#include <chrono>
#include <cstdint>
#include <tandem/collectives/communicator.hpp>
#include <tandem/collectives/schedule.hpp>

namespace tandem {

/// What one rank of a pipeline computes. The runner awaits its calls one at a time on the
/// communicator's executor; transfers go on while they are suspended, so long work belongs on
/// another thread:
///
///   co_await asio::co_spawn(pool, compute(...), asio::use_awaitable);
///
/// A view is valid until the call's awaitable ends: what backward needs of it, the stage stashes.
/// Host memory.
class pipeline_stage {
 public:
  virtual ~pipeline_stage() = default;
  /// Of one micro-batch's activations, in from the stage before and out to the one after; gradients
  /// are as long. Not asked for where there is no such neighbour. One stage's output_bytes is the
  /// next one's input_bytes.
  virtual std::size_t input_bytes() const = 0;
  virtual std::size_t output_bytes() const = 0;
  /// `in` is empty on the first stage, `out` on the last.
  virtual asio::awaitable<void> forward(int micro_batch, const_view in, mutable_view out) = 0;
  /// `grad_out` is empty on the last stage, `grad_in` on the first.
  virtual asio::awaitable<void> backward(int micro_batch, const_view grad_out,
                                         mutable_view grad_in) = 0;
};

/// What a rank of a pipeline spends time on. `recv`: work stands still for an input; `send`: for a
/// buffer that is still being sent, or at the end for the last of them.
enum class pipeline_activity : std::uint8_t { forward, backward, recv, send };

/// Hears where the time goes, on the communicator's executor, when each piece of it is over; pieces
/// never overlap. A transfer beside the computation is not reported. Must not throw.
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
/// Activations and gradients go on flows of their own. Two receives are posted ahead each way, and
/// two results may be leaving while the next is computed: at most 4 (input_bytes + output_bytes) of
/// memory, which the communicator keeps for the next call.
///
/// @par Errors  As communicator, Failure; a stage's exception is thrown as it is here and ends
/// every other rank
///   with `errc::peer_lost` and its text. A transfer's failure is thrown when the running call of
///   the stage has ended. `errc::bad_input`: micro_batches < 0, or a pipeline is under way on this
///   communicator already. `errc::call_mismatch`: neighbours disagree on a length.
/// @par Cancellation  Terminal, passed on to the stage's call; ends the communicator. Completes
/// late: when neither
///   the stage nor a transfer is under way.
asio::awaitable<void> run_pipeline(communicator& stages, pipeline_kind kind, int micro_batches,
                                   pipeline_stage& work, pipeline_observer* observer = nullptr);

}  // namespace tandem
