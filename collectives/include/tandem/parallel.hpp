/// Parallel groups of a job, islands of one vendor, and the back-end of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tandem/collectives.hpp>
#include <tandem/communicator.hpp>
#include <tandem/memory.hpp>
#include <vector>

#pragma GCC visibility push(default)

namespace tandem {

/// The groups with one name. A rank is in at most one of them.
struct rank_groups {
  std::string name;
  std::vector<std::vector<int>> members;  ///< by group: its ranks, in group order

  /// The index of the group that contains the rank.
  std::optional<std::size_t> find(int rank) const noexcept;
};

/// The division of a job's ranks into parallel groups in several dimensions, with each rank in one
/// group of each dimension: "pipeline=2,data=2,tensor=2". The leftmost dimension is the outermost:
/// ranks of a group of the last dimension are consecutive, those of the first are farthest apart.
/// Without I/O.
///
/// Names are free (letters, digits, _ and -, starting with a letter); "tensor", "data", "pipeline"
/// and "expert" are the usual ones. They have no meaning to Tandem: a group's back-end depends on
/// its ranks only (`choose_backends`).
class parallel_layout {
 public:
  /// A dimension and the number of ranks in each of its groups.
  struct dimension {
    std::string name;
    int size = 0;
  };

  /// @par Errors `errc::bad_option`: which dimension, why, and the syntax.
  static parallel_layout parse(std::string_view text);

  /// The product of the sizes.
  int ranks() const noexcept;
  const std::vector<dimension>& dimensions() const noexcept { return dimensions_; }
  /// The groups along a dimension, in the order of their first ranks.
  rank_groups groups(std::size_t dimension) const;
  /// The text that `parse` reads.
  std::string text() const;
  /// @par Errors `errc::bad_option` if the layout is for another number of ranks; suggests sizes
  /// that match.
  void check(int ranks) const;
  /// @par Errors `errc::bad_option` if it is not a valid name of a dimension.
  static void check_name(std::string_view name);

 private:
  parallel_layout() = default;
  std::vector<dimension> dimensions_;
};

/// A compact list of ranks: "0-3,8".
std::string ranks_text(std::span<const int> ranks);

/// The back-end of the collectives of a parallel group.
enum class group_backend : std::uint8_t {
  alone,     ///< one rank: nothing is sent
  library,   ///< one island: the vendor's library only (`islands`)
  levels,    ///< the library inside islands, channels between them (`islands`)
  channels,  ///< channels only: host memory, no two ranks in one island, or no usable library
};

/// What ranks exchange about themselves before groups are made.
struct rank_facts {
  /// Version of a library that is present but was not asked for its version, as in a plan computed
  /// without a job.
  static constexpr int unknown_version = 1;

  memory_kind kind = memory_kind::host;  ///< the memory of its data
  int colour = 0;                        ///< as `island_member::colour`
  int library = 0;                       ///< version code of the vendor's library; 0: not available
  std::string device;                    ///< unique id of the device, 32 characters
};

/// The back-end of a group, and the reason for it.
struct group_choice {
  std::string name;                       ///< the name of its dimension
  std::size_t number = 0;                 ///< its index among the groups of that name
  std::vector<int> ranks;                 ///< in group order
  std::vector<std::vector<int>> islands;  ///< the same ranks by island
  group_backend how = group_backend::alone;
  std::string by;   ///< "NCCL 2.28.3", "NCCL 2.28.3 inside, peer copies across", "shm", "nothing"
  std::string why;  ///< "all on cuda, one island", "ranks 0 and 1 share a device"

  /// The collectives use `tandem::islands`.
  bool has_islands() const noexcept {
    return how == group_backend::library || how == group_backend::levels;
  }
  /// Whether the group's collectives use the path from the rank with index `at` in the group to the
  /// next one (from the last to the first).
  bool uses_path(std::size_t at) const noexcept;
  /// "tensor 0, ranks 0-1: NCCL 2.28.3 (all on cuda, one island)"
  std::string text() const;
};

/// Returns the transport between two ranks, as `fabric::path_to` reports it. Called for each rank
/// of a group and the next one where `group_choice::uses_path` is true.
using transport_between = std::function<std::string(int from, int to)>;

/// Chooses the back-end of each group from the facts of all ranks; the result is the same on every
/// rank. All ranks in one island: the vendor's library. Some ranks share an island: the library
/// inside islands and channels between them. Otherwise channels only. Source: differentiated
/// back-end selection, "Joint Training on AMD and NVIDIA GPUs" (arXiv 2602.18007). Without I/O.
/// @param reported  the facts by rank, for all ranks that the groups name
std::vector<group_choice> choose_backends(const rank_groups& groups,
                                          std::span<const rank_facts> reported,
                                          const transport_between& transport);

/// One line for each choice: the text that ranks compare.
std::string text_of(std::span<const group_choice> choices);

namespace detail {
class island_parts;
}

/// The device that a rank contributes to an island.
struct island_member {
  island_member() = default;
  island_member(memory_kind its_kind, int its_device, int its_colour = 0) noexcept
      : kind(its_kind), device(its_device), colour(its_colour) {}

  memory_kind kind = memory_kind::cuda;
  int device = 0;
  /// Ranks with different colours are never in one island, even with the same vendor.
  int colour = 0;
};

/// Hierarchical collectives on device memory. An island is the ranks of a communicator whose
/// devices are of one vendor and can use its library (NCCL, RCCL) with each other. A call has two
/// levels: the vendor's library inside each island, and Tandem between islands, in parallel from P
/// ranks of each island, its leaders, where P is the size of the smallest island. The idea is that
/// of HetCCL (arXiv 2601.22585) and of hierarchical collectives before it (see two_level). Islands
/// may differ in size, and their ranks may be numbered in any order. With a single island, each
/// call is one call of the library (all_to_all: one group of messages).
///
/// Where an island's ranks cannot use their library (it is missing, versions differ, or two ranks
/// share a device; `text` reports which), or the library has no such operation (averages, bitwise
/// operations, 16-bit integers), Tandem's own collectives do the whole call over the communicator's
/// channels, which must then carry device memory. The same holds for minimum and maximum of
/// floating point: NCCL computes them with fmin, fmax and the like (src/device/reduce_kernel.h),
/// which return the other operand if one is NaN, so that a NaN of one rank is lost. RCCL is derived
/// from NCCL and documents nothing else. Here a NaN reaches every rank, as `reduce_op` defines.
/// Minimum and maximum of integers use the library.
///
/// @par Costs  B is the bytes of the longest view, n the number of ranks. Several operations keep
///   scratch memory on the device, which grows to the longest call.
/// @par Streams  The contents of the views are complete when a call starts, and the result when it
///   completes; `device_watch` connects both to streams.
/// @par Same bits  On every rank: each part is combined once and copied. From run to run as far as
///   the vendor's library is deterministic.
/// @par Errors  Those of the communicator's collectives: `errc::bad_input` and
///   `unsupported_memory`, also for memory that is not on this rank's device, change nothing and
///   affect this rank only. `device_failed` includes the library's error text.
/// @par Failure  As for the communicator's collectives: it ends the communicator, and every rank
///   gets the error. A rank that waits inside the vendor's library for a lost rank is notified by
///   Tandem, aborts the library's communicators and fails with that error; the islands are unusable
///   afterwards. A cancelled call ends only when nothing accesses its views any more; if it waits
///   inside the library, that is when the other ranks have joined the call or have failed.
/// @par Executor  The communicator's. One call at a time.
class islands {
 public:
  /// Every rank of `all` calls it, as a collective. `all` outlives it.
  /// @par Errors `errc::unsupported_memory`: this rank has no such device; those of
  ///   `communicator::split`; `device_failed` on every rank if the library fails to initialise.
  /// @par Cost  An all_gather of 64 bytes per rank, two splits, and the initialisation of the
  ///   library: seconds.
  static asio::awaitable<std::unique_ptr<islands>> make(communicator& all, island_member mine);
  islands(const islands&) = delete;
  islands& operator=(const islands&) = delete;
  ~islands();

  int count() const noexcept;
  /// The island of this rank.
  int island() const noexcept;
  const std::vector<std::vector<int>>& members() const noexcept;
  /// "2 islands: cuda (ranks 0, 1) by NCCL 2.28.3, cuda (ranks 2, 3) by NCCL 2.28.3"
  const std::string& text() const noexcept;

  // Same semantics as the collectives with these names, on memory of this rank's device.

  /// In place. In slices, so that both levels work at the same time. Each leader sends and receives
  /// about B / P between islands.
  asio::awaitable<void> all_reduce(mutable_view data, data_type type, reduction what);
  /// Each leader of the root's island sends B / P to the other islands.
  asio::awaitable<void> broadcast(mutable_view data, int root);
  /// Writes the result at the root; `result` is ignored elsewhere. In place: `result` is `data`.
  /// Level after level: reduced to the leaders of each island, B / P from each leader to the root's
  /// island, and from its leaders to the root. Scratch: B / P.
  asio::awaitable<void> reduce(const_view data, mutable_view result, data_type type, reduction what,
                               int root);
  /// Gathers every rank's block, of equal length, on every rank. In place: `mine` is this rank's
  /// block in `all`. Members send their blocks to the leaders, which exchange them with the leaders
  /// of other islands, while each block is broadcast inside its own island; then the leaders
  /// broadcast the received blocks. Each leader receives about B / P from other islands. Scratch:
  /// B / P; none for a rank alone in its island if the ranks of each island are consecutive.
  asio::awaitable<void> all_gather(const_view mine, mutable_view all);
  /// Combines the ranks' `all` views block by block and writes block r of the result to rank r's
  /// `mine`. In place: `mine` is this rank's block in `all`, whose other bytes are not changed.
  /// Level after level: each block is reduced inside each island at one leader, then across islands
  /// at the leader with the same index in the island of its rank, which forwards it to that rank.
  /// Each leader sends about B / P between islands. Scratch: B / P.
  asio::awaitable<void> reduce_scatter(const_view all, mutable_view mine, data_type type,
                                       reduction what);
  /// Copies block i of rank r's `from` to block r of rank i's `into`. Not in place. Between islands
  /// every pair of ranks exchanges blocks directly over channels, all at once and concurrently with
  /// the library inside islands: nothing is combined and every block has one receiver, so each byte
  /// crosses once in any case, and a detour through the leaders would only add copies. n messages,
  /// no scratch.
  asio::awaitable<void> all_to_all(const_view from, mutable_view into);
  /// The weighted mean of the ranks' data, for example by their share of the batch: the sum of
  /// weight times data, divided by the sum of weights. Each rank passes its own weight, which may
  /// be 0.
  /// @par Errors `errc::bad_input` for a weight that is negative or not finite, a sum of 0, and
  ///   types other than floating point.
  asio::awaitable<void> weighted_mean(mutable_view data, data_type type, double weight);

 private:
  explicit islands(std::unique_ptr<detail::island_parts> made);
  std::unique_ptr<detail::island_parts> parts_;
};

/// The group of one rank in one dimension, for example its tensor group. Its collectives use the
/// group's back-end: `islands` where its ranks share islands, else the communicator (see
/// collectives).
///
/// @par Memory  With islands: memory of the device that this rank passed to `make`, else
///   `errc::unsupported_memory`. Without: any that the channels carry. To reduce host memory (a few
///   values) in a group with islands, call `tandem::all_reduce(group.ranks(), ...)` on all of its
///   ranks.
/// @par Cost, Errors, Failure, Cancellation  Those of `islands`, or of collectives.
/// @par Concurrency  One collective of a group at a time; different groups at once as far as the
///   vendor's library allows concurrent use of its communicators.
/// @par Executor  The communicator's.
class parallel_group {
 public:
  parallel_group(std::unique_ptr<communicator> ranks, std::unique_ptr<islands> by,
                 group_choice choice) noexcept;
  parallel_group(const parallel_group&) = delete;
  parallel_group& operator=(const parallel_group&) = delete;
  ~parallel_group();

  const std::string& name() const noexcept { return choice_.name; }
  /// Its communicator: for send, recv and pipelines, which use channels in every group.
  communicator& ranks() const noexcept { return *ranks_; }
  int rank() const noexcept { return ranks_->rank(); }
  int size() const noexcept { return ranks_->size(); }
  const group_choice& choice() const noexcept { return choice_; }
  /// "tensor 0, ranks 0-1: NCCL 2.28.3 (all on cuda, one island)"
  std::string text() const { return choice_.text(); }

  // Same semantics as the functions with these names under collectives and in `islands`.

  asio::awaitable<void> all_reduce(mutable_view data, data_type type, reduction what);
  asio::awaitable<void> broadcast(mutable_view data, int root);
  asio::awaitable<void> reduce(const_view data, mutable_view result, data_type type, reduction what,
                               int root);
  asio::awaitable<void> all_gather(const_view mine, mutable_view all);
  asio::awaitable<void> reduce_scatter(const_view all, mutable_view mine, data_type type,
                                       reduction what);
  asio::awaitable<void> all_to_all(const_view from, mutable_view into);
  asio::awaitable<void> weighted_mean(mutable_view data, data_type type, double weight);

 private:
  std::unique_ptr<communicator> ranks_;
  std::unique_ptr<islands> by_;  // null: channels only
  group_choice choice_;
};

/// The parallel groups of a job, each with the back-end that suits its ranks. All ranks have agreed
/// on the choice.
///
///   auto layout = parallel_layout::parse("pipeline=2,data=2,tensor=2");
///   const auto groups = co_await parallel_groups::make(all, layout, {memory_kind::cuda, device});
///   co_await groups->group("tensor").all_reduce(sums, data_type::bfloat16, reduce_op::sum);
///
/// @par Lifetime  The communicator outlives it.
/// @par Failure  An error that ends the communicator of one group reaches every rank of the job.
class parallel_groups {
 public:
  /// Every rank of `all` calls it, as a collective, with the same layout. `mine` is the memory of
  /// this rank's data: a device, or host memory (`{memory_kind::host, 0}`).
  ///
  /// Ranks exchange layout, memory, device, library and colour, and then, for groups that use
  /// channels, the transport to the next rank of the group. Each rank computes `choose_backends`
  /// from all facts, and all compare a hash of its text.
  /// @par Errors `errc::call_mismatch`, the same on every rank, if their layouts or plans differ:
  ///   what differs, and on which ranks. `bad_option` on every rank for a layout with another
  ///   number of ranks. `unsupported_memory` if this rank has no such device, and then
  ///   `call_mismatch` with that text on the others. None of these changes anything. Those of
  ///   `communicator::split` and `islands::make`, which end the communicator.
  /// @par Cost  An exchange of about 100 bytes per rank; for each dimension a split, an exchange of
  ///   a short text, the hash, and the initialisation of the library: seconds, and device memory
  ///   for each group that uses it.
  /// @par Cancellation  As under collectives.
  static asio::awaitable<std::unique_ptr<parallel_groups>> make(communicator& all,
                                                                parallel_layout layout,
                                                                island_member mine);
  parallel_groups(const parallel_groups&) = delete;
  parallel_groups& operator=(const parallel_groups&) = delete;
  ~parallel_groups();

  /// Adds a user-defined group to those of the layout: the ranks with the same colour, ordered by
  /// key, then by rank. A rank with a negative colour joins none and gets null. Every rank calls it
  /// with the same name, as a collective; the group lives as long as this object.
  /// @par Errors, Cost  Those of `make`; `errc::bad_option` on every rank if the name is in use.
  asio::awaitable<parallel_group*> add(std::string name, int colour, int key = 0);

  /// This rank's group of a dimension, or one that it added.
  /// @par Errors `errc::bad_input`: this rank has no group of that name; the nearest valid name.
  parallel_group& group(std::string_view name) const;
  /// The agreed back-ends of all groups, also of those that this rank is not in.
  const std::vector<group_choice>& agreed() const noexcept { return agreed_; }
  /// One line for each group.
  std::string text() const { return text_of(agreed_); }

 private:
  parallel_groups(communicator& all, island_member mine, std::vector<rank_facts> reported);
  asio::awaitable<void> add_groups(const rank_groups& groups);

  communicator& all_;
  const island_member mine_;
  const std::vector<rank_facts> reported_;
  std::vector<std::string> names_;  ///< in use on any rank
  std::vector<group_choice> agreed_;
  std::vector<std::unique_ptr<parallel_group>> groups_;
};

}  // namespace tandem

#pragma GCC visibility pop
