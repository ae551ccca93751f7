/// Pipeline schedules: the order in which the ranks of a pipeline compute, as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace tandem {

/// gpipe: all forwards, then all backwards (Huang et al. 2019, GPipe), but with the backwards in
///   micro-batch order as well.
/// one_f_one_b: as many forwards as there are later stages, then one forward and one backward
///   alternately, then the remaining backwards (Narayanan et al. 2019, PipeDream; 2021,
///   Megatron-LM): the same time with fewer stashed micro-batches.
/// interleaved: 1F1B of several chunks for each rank, in groups of `ranks` micro-batches (Narayanan
///   et al. 2021, Megatron-LM, section 2.2). A remainder is a group with places left empty.
/// zb_h1: 1F1B with the backward split; rank r computes weight parts r micro-batches late, in the
///   time in which 1F1B waits (Qi et al. 2023, Zero Bubble Pipeline Parallelism, section 2.1).
/// zb_v: two chunks for each rank in V placement, backward split (Qi et al. 2024, Pipeline
///   Parallelism with Controllable Memory, V-ZB; the order of ZB-V).
/// v_uneven: V placement, backward split, for stages of unequal costs: list scheduling (Graham
///   1966) with the costs given under a limit of stashed micro-batches, by several rules of
///   priority; the best of these and of zb_v's order in the simulation of `check`. Integers only,
///   so that all ranks compute the same schedule.
enum class pipeline_kind : std::uint8_t { gpipe, one_f_one_b, interleaved, zb_h1, zb_v, v_uneven };
/// All kinds, in order.
std::span<const pipeline_kind> pipeline_kinds() noexcept;
/// "gpipe", "one_f_one_b" and so on: the names above.
std::string_view name(pipeline_kind kind) noexcept;
/// The kind of that name; "1f1b" is one_f_one_b.
/// @par Errors thrown: `errc::bad_input`, with the known names.
pipeline_kind find_pipeline_kind(std::string_view name);
/// Chunks of a rank unless others are asked for: 2 for interleaved and in V placement, else 1.
int usual_chunks(pipeline_kind kind) noexcept;

/// Which stages of the model a rank holds. A rank holds one stage for each of its chunks.
/// looped: chunk c of rank r is stage c * ranks + r. v: every other chunk runs backwards through
/// the ranks, so that chunk 0 of rank r is stage r and chunk 1 is stage 2 * ranks - 1 - r, and a
/// rank hands over to itself at the turns.
enum class pipeline_placement : std::uint8_t { looped, v };
/// v for zb_v and v_uneven, else looped.
pipeline_placement placement_of(pipeline_kind kind) noexcept;

/// One of a rank's chunks.
struct chunk_location {
  int rank = 0;
  int chunk = 0;

  bool operator==(const chunk_location&) const = default;
};
/// The stage that a chunk is. @pre 0 <= at.rank < ranks, at.chunk >= 0.
int stage_of(pipeline_placement placement, chunk_location at, int ranks) noexcept;
/// The chunk that a stage is: the inverse of `stage_of`.
chunk_location location_of(pipeline_placement placement, int stage, int ranks) noexcept;

/// One computation of a rank on one micro-batch of one of its chunks.
struct pipeline_step {
  /// backward is both of its parts: backward_input computes the gradient of the stage's input,
  /// which the previous stage waits for; backward_weights that of its weights, which nothing waits
  /// for.
  enum kind : std::uint8_t { forward, backward, backward_input, backward_weights };
  kind what = forward;
  int micro_batch = 0;
  int chunk = 0;

  bool operator==(const pipeline_step&) const = default;
};
/// "forward", "backward", "backward input", "backward weights".
std::string_view name(pipeline_step::kind what) noexcept;

/// The steps of one rank, in order.
using pipeline_steps = std::vector<pipeline_step>;

/// Duration of a stage's computations, in any unit; a backward takes both parts.
struct stage_cost {
  int forward = 1;
  int backward_input = 1;
  int backward_weights = 1;

  bool operator==(const stage_cost&) const = default;
};

/// Duration of a message between two stages on different ranks, in the unit of the costs. It
/// occupies its direction of the link between the two ranks for the time of its transmission, and
/// arrives one latency later.
struct message_cost {
  std::int64_t transmission = 0;
  std::int64_t latency = 0;

  bool operator==(const message_cost&) const = default;
};

/// What a schedule is made from.
struct pipeline_shape {
  pipeline_kind kind = pipeline_kind::one_f_one_b;
  int ranks = 1;
  int micro_batches = 0;
  int chunks = 0;                      ///< of each rank; 0: `usual_chunks`
  std::vector<stage_cost> costs = {};  ///< by stage, for v_uneven; empty: equal
  int max_stash = 0;  ///< for v_uneven: limit of a rank's stash, in micro-batches of one chunk; 0:
                      ///< 2 * ranks, as in 1F1B

  bool operator==(const pipeline_shape&) const = default;
};

/// The steps of all ranks of a pipeline.
struct pipeline_schedule {
  pipeline_placement placement = pipeline_placement::looped;
  int chunks = 1;  ///< of each rank
  int micro_batches = 0;
  std::vector<pipeline_steps> ranks;

  int size() const noexcept { return static_cast<int>(ranks.size()); }
  int stages() const noexcept { return chunks * size(); }
  bool operator==(const pipeline_schedule&) const = default;
};

/// The maximum of messages in flight between two stages in one direction in `run_pipeline`: two
/// buffers at each end.
inline constexpr int pipeline_buffers = 4;

/// The limits of a schedule: stages, and micro-batches of all stages.
inline constexpr int max_pipeline_stages = 1 << 14;
inline constexpr int max_pipeline_steps = 1 << 24;

/// The schedule of that shape. In each chunk the forwards, input parts and weight parts are in the
/// order 0, 1, 2..., so that gradients are summed in the same order for any kind and number of
/// stages. Linear in the number of steps, except for v_uneven, which simulates: make it once.
/// @par Errors thrown: `errc::bad_input`: a kind does not have that number of chunks, a number is
///   out of range, or `costs` has no entry for each stage.
pipeline_schedule make_schedule(const pipeline_shape& shape);

/// The result of simulating a schedule.
struct schedule_check {
  std::string problem;  ///< empty: every rank completed
  /// By rank and chunk: maximum of micro-batches between the end of their forward and the end of
  /// their backward with both parts.
  std::vector<std::vector<int>> chunk_stash;
  std::vector<int> peak_stash;    ///< by rank: the same of all its chunks together
  std::vector<int> peak_weights;  ///< by rank: maximum of input parts whose weight part is pending
  std::vector<std::vector<std::int64_t>> begin_slots;  ///< by rank and step, for those that ran
  std::vector<std::int64_t> busy_slots;                ///< by rank: in which it computes
  /// By rank: in which it waits for messages in flight only: for an input that the other stage has
  /// computed, or for a buffer that is still being sent.
  std::vector<std::int64_t> message_slots;
  std::int64_t slots = 0;  ///< until the last rank has completed

  /// The part of the time in which the rank does not compute; 0 for an empty schedule.
  double bubble(int rank) const;
  /// The same of all ranks together.
  double bubble() const;
};

/// Simulates the steps of all ranks together as `run_pipeline` would run them. A step lasts as many
/// slots as the stage's cost; without costs, one slot. It waits for its input, and for a free
/// output buffer while `buffers` messages are in flight to that stage. Finds steps that are
/// missing, repeated or out of order, and deadlocks between ranks.
///
/// Messages travel while the ranks compute, by default in no time. Those of one direction between
/// two ranks go one after the other; the two directions are independent. A message begins when it
/// has been computed and one of the receiver's half of the buffers is free for it. A rank's
/// messages to itself take no time.
/// @pre `costs` is empty or has an entry for each stage; the times of messages are not negative.
schedule_check check(const pipeline_schedule& all, std::span<const stage_cost> costs = {},
                     int buffers = pipeline_buffers, message_cost messages = {});

/// What takes most of a step's time beyond the computation of the rank with most of it: the bubble
/// of the schedule, or the messages; compute if both together are less than a twentieth of the
/// step.
enum class pipeline_limit : std::uint8_t { compute, bubble, link };
/// "compute", "bubble", "link".
std::string_view name(pipeline_limit limit) noexcept;

/// The time of a step, as a sum: compute_slots + bubble_slots + link_slots == simulated.slots.
struct pipeline_prediction {
  schedule_check simulated;
  std::int64_t compute_slots = 0;  ///< of the rank that computes longest
  std::int64_t bubble_slots = 0;   ///< added by the order of the schedule
  std::int64_t link_slots = 0;     ///< added by the time of the messages

  pipeline_limit decides() const noexcept;
};

/// Simulates the schedule with and without the time of its messages. All but `simulated` is 0 if
/// `check` finds a problem. @pre as `check`.
pipeline_prediction predict(const pipeline_schedule& all, std::span<const stage_cost> costs,
                            message_cost messages);

/// All ranks as a grid, a line per rank and a column per slot: F0 F1 .. B0. B is a whole backward,
/// I its input part, W its weight part; the letter after a micro-batch is the chunk, where there
/// are several: F0a, F0b. A step of several slots goes on with "--". Ends with the problem that
/// `check` found, if any.
std::string print(const pipeline_schedule& all, std::span<const stage_cost> costs = {});

/// Equal for equal schedules: ranks compare it.
std::uint64_t hash_of(const pipeline_schedule& all) noexcept;

}  // namespace tandem

#pragma GCC visibility pop
