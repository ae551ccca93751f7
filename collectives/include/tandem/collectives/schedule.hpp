#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// In what order a stage of a pipeline computes its micro-batches.
/// gpipe: all forwards, then all backwards (Huang et al. 2019, GPipe), but backwards in micro-batch
/// order, too. one_f_one_b: as many forwards as stages follow, then one forward and one backward in
/// turn, then the remaining backwards (Narayanan et al. 2019, PipeDream; 2021, Megatron-LM): the
/// same time, less held in memory.
enum class pipeline_kind : std::uint8_t { gpipe, one_f_one_b };
std::string_view name(pipeline_kind kind) noexcept;

/// One computation of a stage.
struct pipeline_step {
  enum kind : std::uint8_t { forward, backward };
  kind what = forward;
  int micro_batch = 0;

  bool operator==(const pipeline_step&) const = default;
};

/// What one stage does, in order.
using pipeline_schedule = std::vector<pipeline_step>;

/// Messages that may be between two neighbours, one way, in `run_pipeline`: two buffers at each
/// end.
inline constexpr int pipeline_buffers = 4;

/// Both kinds take forwards in the order 0, 1, 2... and backwards, too, so that gradients add up in
/// the same order whatever the number of stages and the kind.
/// @pre 0 <= stage < stages, micro_batches >= 0.
pipeline_schedule make_schedule(pipeline_kind kind, int stage, int stages, int micro_batches);
/// The schedules of all stages, by stage.
std::vector<pipeline_schedule> make_schedules(pipeline_kind kind, int stages, int micro_batches);

/// What came of playing a set of schedules through.
struct schedule_check {
  std::string problem;          ///< empty: every stage came to its end
  std::vector<int> peak_stash;  ///< by stage: most micro-batches between their forward and the end
                                ///< of their backward
  std::vector<std::vector<int>>
      begin_slots;  ///< by stage and step, every step lasting one slot; of those that ran
  int slots = 0;    ///< until the last stage has ended
};

/// Plays the schedules of all stages together as `run_pipeline` would, messages taking no time: a
/// step waits for its input, and for room for its output while `buffers` messages are on their way
/// to that neighbour. Finds steps that are missing, repeated or out of order, and stages that wait
/// for each other for ever.
schedule_check check(const std::vector<pipeline_schedule>& stages, int buffers = pipeline_buffers);

/// All stages as a grid, a line per stage and a column per slot: F0 F1 .. B0. Ends with what
/// `check` found wrong.
std::string print(const std::vector<pipeline_schedule>& stages);

}  // namespace tandem
