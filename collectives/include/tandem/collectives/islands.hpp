#pragma once

#include <memory>
#include <string>
#include <tandem/collectives/communicator.hpp>
#include <tandem/collectives/reduction.hpp>
#include <vector>

namespace tandem {

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
/// island, Tandem across, in parallel from as many ranks of each island as the smallest has, and in
/// slices, so that both levels are busy at once. The idea is that of HetCCL (arXiv 2601.22585) and
/// of hierarchical collectives before it (see two_level).
///
/// Where an island's ranks cannot use their library (it is missing, of different versions, or two
/// ranks share a device), or a call is none of it (bits, 16-bit integers), Tandem's own collectives
/// do all of it; `text` says so.
///
/// @par Streams  What the views hold is ready when a call starts, and the result is there when it
///   completes; `device_watch` ties both to streams.
/// @par Same bits  On every rank: each part is combined once and copied. From run to run as far as
///   the vendor's library repeats itself.
/// @par Failure  As of the communicator's collectives. Who waits inside the vendor's library for a
///   rank that is gone hears of it from Tandem, aborts the library's communicators and fails with
///   that; the islands are of no use then.
/// @par Executor  The communicator's. One call at a time.
class islands {
 public:
  /// Every rank of `all` calls it, as a collective. `all` outlives it.
  /// @par Errors `errc::unsupported_memory`: this rank has no such device; those of
  ///   `communicator::split`; `device_failed` where the library does not start.
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

  /// As the communicator's own, in place. @param data  of this rank's device
  asio::awaitable<void> all_reduce(mutable_view data, data_type type, reduction what);
  asio::awaitable<void> broadcast(mutable_view data, int root);
  /// The mean of what the ranks bring, each weighted by what it stands for (its share of the batch,
  /// say): sum of weight times data, divided by the sum of weights. Each rank gives its own weight,
  /// which may be 0. @par Errors `errc::bad_input` for a weight that is negative or not finite, a
  ///   sum of 0, and types other than floating point.
  asio::awaitable<void> weighted_mean(mutable_view data, data_type type, double weight);

 private:
  struct parts;
  explicit islands(std::unique_ptr<parts> made);
  std::unique_ptr<parts> parts_;
};

}  // namespace tandem
