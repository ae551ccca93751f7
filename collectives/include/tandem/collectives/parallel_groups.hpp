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
  parallel_groups(communicator& all, island_member mine, std::vector<rank_facts> said);
  asio::awaitable<void> grow(const rank_groups& groups);

  communicator& all_;
  const island_member mine_;
  const std::vector<rank_facts> said_;
  std::vector<std::string> names_;  ///< in use on any rank
  std::vector<group_choice> agreed_;
  std::vector<std::unique_ptr<parallel_group>> groups_;
};

}  // namespace tandem
