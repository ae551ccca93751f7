#pragma once

#include <memory>
#include <string>
#include <tandem/collectives/communicator.hpp>
#include <tandem/collectives/reduction.hpp>
#include <vector>

namespace tandem {

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

}  // namespace tandem
