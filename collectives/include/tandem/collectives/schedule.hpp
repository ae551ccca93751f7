#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// The order in which a pipeline stage computes its micro-batches.
/// gpipe: all forwards, then all backwards (Huang et al. 2019, GPipe), but with the backwards in
/// micro-batch order as well. one_f_one_b: as many forwards as there are later stages, then one
/// forward and one backward alternately, then the remaining backwards (Narayanan et al. 2019,
/// PipeDream; 2021, Megatron-LM): the same time with fewer stashed micro-batches.
enum class pipeline_kind : std::uint8_t { gpipe, one_f_one_b };
std::string_view name(pipeline_kind kind) noexcept;

/// One computation of a stage.
struct pipeline_step {
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

}  // namespace tandem
