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

/// What a rank brings to the division into islands.
struct island_member {
  island_member() = default;
  island_member(memory_kind its_kind, int its_device, int its_colour = 0) noexcept
      : kind(its_kind), device(its_device), colour(its_colour) {}

  memory_kind kind = memory_kind::cuda;
  int device = 0;
  /// Ranks of different colours share no island, though their vendor is the same.
  int colour = 0;
};

/// The ranks of a communicator by island: those of one vendor that can use its library (NCCL, RCCL)
/// among themselves. Calls on device memory go through the levels: the vendor's library inside each
/// island, Tandem across, in parallel from as many ranks of each island as the smallest has: its
/// "places", P. The idea is that of HetCCL (arXiv 2601.22585) and of hierarchical collectives
/// before it (see two_level). Islands may differ in size, and their ranks be numbered in any way.
/// Where there is one island, each call is one of the library (all_to_all: one group of messages).
///
/// Where an island's ranks cannot use their library (it is missing, of different versions, or two
/// ranks share a device; `text` says so), or a call is none of it (averages, bits, 16-bit
/// integers), Tandem's own collectives do all of it, over the communicator's channels, which have
/// to carry device memory then. So they do minimum and maximum of floating point. NCCL computes
/// them by fmin, fmax and their like (src/device/reduce_kernel.h), which give the other operand
/// where one is NaN: a NaN of one rank is lost. RCCL descends from it and promises nothing else.
/// Here it reaches every rank, as `reduce_op` says. Minimum and maximum of integers are the
/// library's.
///
/// @par Costs  B is the bytes of the longest view, n the number of ranks. Several keep scratch
///   memory on the device, which grows to the longest call.
/// @par Streams  What the views hold is ready when a call starts, and the result is there when it
///   completes; `device_watch` ties both to streams.
/// @par Same bits  On every rank: each part is combined once and copied. From run to run as far as
///   the vendor's library repeats itself.
/// @par Errors  As of the communicator's collectives: `errc::bad_input` and `unsupported_memory`,
///   also of memory that is not on this rank's device, change nothing and are this rank's alone.
///   `device_failed` gives the library's words.
/// @par Failure  As of the communicator's collectives: it ends the communicator, and every rank
///   hears of it. Who waits inside the vendor's library for a rank that is gone hears of it from
///   Tandem, aborts the library's communicators and fails with that; the islands are of no use
///   then. A cancelled call ends only when nothing touches its views any more, so where it waits
///   inside the library, when the others have come or have failed.
/// @par Executor  The communicator's. One call at a time.
class islands {
 public:
  /// Every rank of `all` calls it, as a collective. `all` outlives it.
  /// @par Errors `errc::unsupported_memory`: this rank has no such device; those of
  ///   `communicator::split`; `device_failed` where the library does not start, of which every rank
  ///   hears.
  /// @par Cost  An all_gather of 64 bytes each, two splits, and what the library takes to start:
  ///   seconds.
  static asio::awaitable<std::unique_ptr<islands>> make(communicator& all, island_member mine);
  islands(const islands&) = delete;
  islands& operator=(const islands&) = delete;
  ~islands();

  int count() const noexcept;
  /// Of this rank.
  int island() const noexcept;
  const std::vector<std::vector<int>>& members() const noexcept;
  /// "2 islands: cuda (ranks 0, 1) by NCCL 2.28.3, cuda (ranks 2, 3) by NCCL 2.28.3"
  const std::string& text() const noexcept;

  // As the communicator's own calls of these names, on memory of this rank's device.

  /// In place. In slices, so that both levels are busy at once. Each place sends and receives about
  /// B / P from island to island.
  asio::awaitable<void> all_reduce(mutable_view data, data_type type, reduction what);
  /// Each place of the root's island sends B / P on to the others.
  asio::awaitable<void> broadcast(mutable_view data, int root);
  /// The result comes to the root alone; `result` is ignored elsewhere. In place: `result` is
  /// `data`. Level after level: combined to the places of each island, B / P from each place to the
  /// root's island, and from its places to the root. Scratch: B / P.
  asio::awaitable<void> reduce(const_view data, mutable_view result, data_type type, reduction what,
                               int root);
  /// Every rank's block, of equal length, comes to every rank. In place: `mine` is this rank's
  /// place in `all`. Members hand their blocks to the places, which exchange them with those of
  /// other islands, while each member's own goes to the rest of its island; then the places spread
  /// what has come. Each place receives about B / P from other islands. Scratch: B / P, or none
  /// for a rank alone where the ranks of each island follow each other.
  asio::awaitable<void> all_gather(const_view mine, mutable_view all);
  /// Combines the ranks' `all` views block by block; block r of the result comes to rank r's
  /// `mine`. In place: `mine` is this rank's place in `all`, whose other bytes stay as they are.
  /// Level after level: each block is combined inside each island at one place, from there with the
  /// other islands' at the same place of its rank's island, and handed on where its rank is another
  /// one. Each place sends about B / P from island to island. Scratch: B / P.
  asio::awaitable<void> reduce_scatter(const_view all, mutable_view mine, data_type type,
                                       reduction what);
  /// Block i of rank r's `from` comes to block r of rank i's `into`. Not in place. Between islands
  /// every pair of ranks exchanges by Tandem directly, all at once and beside what the library does
  /// inside: nothing is combined and no two ranks get the same, so each byte has to cross once
  /// however it goes, and a detour through the places would only copy it more often. n messages,
  /// no scratch.
  asio::awaitable<void> all_to_all(const_view from, mutable_view into);
  /// The mean of what the ranks bring, each weighted by what it stands for (its share of the batch,
  /// say): sum of weight times data, divided by the sum of weights. Each rank gives its own weight,
  /// which may be 0. @par Errors `errc::bad_input` for a weight that is negative or not finite, a
  ///   sum of 0, and types other than floating point.
  asio::awaitable<void> weighted_mean(mutable_view data, data_type type, double weight);

 private:
  explicit islands(std::unique_ptr<detail::island_parts> made);
  std::unique_ptr<detail::island_parts> parts_;
};

}  // namespace tandem
