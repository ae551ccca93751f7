#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tandem/collectives/collectives.hpp>
#include <tandem/collectives/group_choice.hpp>
#include <tandem/collectives/islands.hpp>
#include <tandem/collectives/parallel_layout.hpp>
#include <vector>

namespace tandem {

/// The ranks that one rank works with in one dimension: its tensor group, say. Collectives go by
/// the group's back-end: as the calls of `islands` where its ranks share islands, else as the
/// communicator's (see collectives).
///
/// @par Memory  With islands: of the device that this rank brought, else
/// `errc::unsupported_memory`.
///   Without: any that the channels carry. Host memory in a group with islands (a number or two):
///   `tandem::all_reduce(group.ranks(), ...)`, on all of its ranks.
/// @par Cost, Errors, Failure, Cancellation  Those of `islands`, or of collectives.
/// @par Concurrency  One collective of a group at a time; different groups at once as far as the
///   vendor's library lets its communicators be.
/// @par Executor  The communicator's.
class parallel_group {
 public:
  parallel_group(std::unique_ptr<communicator> ranks, std::unique_ptr<islands> by,
                 group_choice choice) noexcept;
  parallel_group(const parallel_group&) = delete;
  parallel_group& operator=(const parallel_group&) = delete;
  ~parallel_group();

  const std::string& name() const noexcept { return choice_.name; }
  /// Its communicator: for send, recv and pipelines, which go by channels in every group.
  communicator& ranks() const noexcept { return *ranks_; }
  int rank() const noexcept { return ranks_->rank(); }
  int size() const noexcept { return ranks_->size(); }
  const group_choice& choice() const noexcept { return choice_; }
  /// "tensor 0, ranks 0-1: NCCL 2.28.3 (all on cuda, one island)"
  std::string text() const { return choice_.text(); }

  // As the calls of these names under collectives and `islands`.

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
  std::unique_ptr<islands> by_;  // null: none
  group_choice choice_;
};

/// The parallel groups of a job, each with the back-end that suits its ranks, on which all ranks
/// have agreed:
///
///   auto layout = parallel_layout::parse("pipeline=2,data=2,tensor=2");
///   const auto groups = co_await parallel_groups::make(all, layout, {memory_kind::cuda, device});
///   co_await groups->group("tensor").all_reduce(sums, data_type::bfloat16, reduce_op::sum);
///
/// @par Lifetime  The communicator outlives it.
/// @par Failure  What ends the communicator of one group is heard by every rank of the job.
class parallel_groups {
 public:
  /// Every rank of `all` calls it, as a collective, with the same layout. `mine` is where this
  /// rank's data lie: a device, or host memory (`{memory_kind::host, 0}`).
  ///
  /// Ranks tell each other layout, memory, device, library and colour, then, where a group's
  /// messages go by channels, how they travel to the next rank of it; each computes
  /// `choose_backends` of what all have said, and all compare a hash of its text.
  /// @par Errors `errc::call_mismatch`, on every rank alike, where their layouts or plans differ:
  ///   what, and on which ranks. `bad_option` on every rank for a layout of another number of
  ///   ranks. `unsupported_memory` where this rank has no such device, and `call_mismatch` with
  ///   that on the others. None of these changes anything. Those of `communicator::split` and
  ///   `islands::make`, which end the communicator.
  /// @par Cost  An exchange of about 100 bytes each; for each dimension a split, an exchange of a
  ///   few words, the hash, and what the library takes to start: seconds, and memory of the device
  ///   for each group that it carries.
  /// @par Cancellation  As under collectives.
  static asio::awaitable<std::unique_ptr<parallel_groups>> make(communicator& all,
                                                                parallel_layout layout,
                                                                island_member mine);
  parallel_groups(const parallel_groups&) = delete;
  parallel_groups& operator=(const parallel_groups&) = delete;
  ~parallel_groups();

  /// A group of the user's own, beside those of the layout: the ranks that give the same colour,
  /// in the order of their keys, and of their ranks where keys are equal. A negative colour: in
  /// none, and null comes back. Every rank calls it with the same name, as a collective; what comes
  /// back lives as long as this. @par Errors, cost as of `make`; `errc::bad_option` on every rank
  ///   for a name that is there.
  asio::awaitable<parallel_group*> add(std::string name, int colour, int key = 0);

  /// This rank's group of a dimension, or of its own. @par Errors `errc::bad_input`: no such name
  ///   here, the nearest right one.
  parallel_group& group(std::string_view name) const;
  /// What all ranks have agreed on, group by group, those of other ranks, too.
  const std::vector<group_choice>& agreed() const noexcept { return agreed_; }
  /// A line for each.
  std::string text() const { return text_of(agreed_); }

 private:
  parallel_groups(communicator& all, island_member mine, std::vector<rank_facts> said);
  asio::awaitable<void> grow(const rank_groups& groups);

  communicator& all_;
  const island_member mine_;
  const std::vector<rank_facts> said_;
  std::vector<std::string> names_;  ///< that are taken, on any rank
  std::vector<group_choice> agreed_;
  std::vector<std::unique_ptr<parallel_group>> groups_;
};

}  // namespace tandem
