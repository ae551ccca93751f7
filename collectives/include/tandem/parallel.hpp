/// Parallel groups of a job, islands of one vendor, and the back-end of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
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

  /// The communicator of the group has islands.
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

/// Makes a communicator of the same ranks, in the same order, with hierarchical collectives on
/// device memory. Every rank of `all` calls it, as a collective; the result does not depend on
/// `all`.
///
/// An island is the ranks whose devices are of one vendor and can use its library (NCCL, RCCL) with
/// each other. A call has two levels: the vendor's library inside each island, and Tandem between
/// islands, in parallel from P ranks of each island, its leaders, where P is the size of the
/// smallest island. The idea is that of HetCCL (arXiv 2601.22585) and of hierarchical collectives
/// before it (see two_level). Islands may differ in size, and their ranks may be numbered in any
/// order. With a single island, each call is one call of the library (all_to_all: one group of
/// messages).
///
/// Where an island's ranks cannot use their library (it is missing, versions differ, or two ranks
/// share a device; `backend_description::text` reports which), or the library has no such operation
/// (averages, bitwise operations, 16-bit integers), the whole call goes over the communicator's
/// channels, which must then carry device memory. The same holds for minimum and maximum of
/// floating point: NCCL computes them with fmin, fmax and the like (src/device/reduce_kernel.h),
/// which return the other operand if one is NaN, so that a NaN of one rank is lost. RCCL is derived
/// from NCCL and documents nothing else. Here a NaN reaches every rank, as `reduce_op` defines.
/// Minimum and maximum of integers use the library.
///
/// @par Cost To make it: a split, an all_gather of 64 bytes per rank, two more splits, and the
///   initialisation of the library: seconds. Of calls, where B is the bytes of the longest view:
///   - all_reduce: in slices, so that both levels work at the same time; each leader sends and
///     receives about B / P between islands.
///   - broadcast: each leader of the root's island sends B / P to the other islands.
///   - reduce: level after level, to the leaders of each island, B / P from each leader to the
///     root's island, and from its leaders to the root. Scratch: B / P.
///   - all_gather: members send their blocks to the leaders, which exchange them with the leaders
///     of other islands, while each block is broadcast inside its own island; then the leaders
///     broadcast the received blocks. Each leader receives about B / P from other islands.
///     Scratch: B / P; none for a rank alone in its island if the ranks of each island are
///     consecutive.
///   - reduce_scatter: level after level, each block is reduced inside each island at one leader,
///     then across islands at the leader with the same index in the island of its rank, which
///     forwards it to that rank. Each leader sends about B / P between islands. Scratch: B / P.
///   - all_to_all: between islands every pair of ranks exchanges blocks directly over channels,
///     all at once and concurrently with the library inside islands: nothing is combined and every
///     block has one receiver, so each byte crosses once in any case, and a detour through the
///     leaders would only add copies. n messages of n ranks, no scratch.
///   - scratch memory is on the device and grows to the longest call.
/// @par Streams The contents of the views are complete when a call starts, and the result when it
///   completes; `device_watch` connects both to streams.
/// @par Same bits On every rank: each part is combined once and copied. From run to run as far as
///   the vendor's library is deterministic.
/// @par Errors `errc::unsupported_memory`: this rank has no such device; those of
///   `communicator::split`; `device_failed` on every rank if the library fails to initialise. Of
///   calls: `device_failed` includes the library's error text.
/// @par Failure As under communicator. A rank that waits inside the vendor's library for a lost
///   rank is notified by Tandem, aborts the library's communicators and fails with that error. A
///   cancelled call ends only when nothing accesses its views any more; if it waits inside the
///   library, that is when the other ranks have joined the call or have failed.
/// @par Concurrency One call on device memory at a time, and any on host memory beside it.
/// @par Executor That of `all`.
asio::awaitable<std::unique_ptr<communicator>> make_island_communicator(communicator& all,
                                                                        island_member mine);

/// The parallel groups of a job, each with the back-end that suits its ranks. All ranks have agreed
/// on the choice.
///
///   auto layout = parallel_layout::parse("pipeline=2,data=2,tensor=2");
///   const auto groups = co_await parallel_groups::make(all, layout, {memory_kind::cuda, device});
///   co_await all_reduce(groups->group("tensor"), sums, data_type::bfloat16, reduce_op::sum);
///
/// The communicator of a group has islands where its ranks share some. Send, recv and pipelines use
/// channels in every group.
///
/// @par Concurrency  One collective on device memory of a group with islands at a time; different
///   groups at once as far as the vendor's library allows concurrent use of its communicators.
/// @par Lifetime  The communicator that it was made from outlives it.
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
  ///   `communicator::split` and `make_island_communicator`, which end the communicator.
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
  asio::awaitable<communicator*> add(std::string name, int colour, int key = 0);

  /// This rank's group of a dimension, or one that it added.
  /// @par Errors `errc::bad_input`: this rank has no group of that name; the nearest valid name.
  communicator& group(std::string_view name) const { return *find(name).ranks; }
  /// The ranks of that group, its back-end and the reason for it.
  const group_choice& choice(std::string_view name) const { return find(name).choice; }
  /// The agreed back-ends of all groups, also of those that this rank is not in.
  const std::vector<group_choice>& agreed() const noexcept { return agreed_; }
  /// One line for each group.
  std::string text() const { return text_of(agreed_); }

 private:
  parallel_groups(communicator& all, island_member mine, std::vector<rank_facts> reported);
  struct own_group {
    group_choice choice;
    std::unique_ptr<communicator> ranks;
  };
  const own_group& find(std::string_view name) const;
  asio::awaitable<void> add_groups(const rank_groups& groups);

  communicator& all_;
  const island_member mine_;
  const std::vector<rank_facts> reported_;
  std::vector<std::string> names_;  ///< in use on any rank
  std::vector<group_choice> agreed_;
  std::deque<own_group> groups_;  ///< references to each stay valid
};

}  // namespace tandem

#pragma GCC visibility pop
