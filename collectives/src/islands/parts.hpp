#pragma once

#include <tandem/accelerator.hpp>
#include <tandem/parallel.hpp>

#include "communicator/call.hpp"
#include "islands/division.hpp"
#include "islands/peer_watch.hpp"
#include "islands/vendor_group.hpp"

namespace tandem::detail {

/// The facts of this rank. @par Errors `errc::unsupported_memory`: it has no such device.
island_fact own_fact(const island_member& mine);

/// Gives the communicator a back-end of islands. Every rank calls it, once, while no other call is
/// in progress. @par Errors  Those of `make_island_communicator`.
asio::awaitable<void> add_islands(communicator& to, island_member mine);

/// Hierarchical collectives of the islands of a group, which owns it: on one rank the division, the
/// groups of both levels, and scratch memory and a stream for copies between them. The elements of
/// a call are checked, and there are some.
class island_parts final : public device_backend {
 public:
  island_parts(group& over, accelerator& of, const std::vector<island_fact>& reported);
  /// Every rank calls it, once. @param over  the group's
  /// @param library  null: not available on this rank. @pre has_levels
  asio::awaitable<void> connect(communicator& over, const nccl* library);

  int rank() const noexcept { return all.rank(); }
  int island() const noexcept { return ranks.island_of[static_cast<std::size_t>(rank())]; }
  int local_rank() const noexcept { return ranks.local_rank_of[static_cast<std::size_t>(rank())]; }
  int islands() const noexcept { return static_cast<int>(ranks.members.size()); }
  const std::vector<int>& mine() const noexcept {
    return ranks.members[static_cast<std::size_t>(island())];
  }
  /// Whether its island has other ranks.
  bool has_inside() const noexcept { return mine().size() > 1; }
  /// Whether this rank is a leader: it transfers data to and from other islands.
  bool is_leader() const noexcept { return local_rank() < ranks.leader_count; }
  /// Whether calls can use the levels; else channels carry all. The same on all ranks.
  bool has_levels() const noexcept { return all.size() > 1 && ranks.can_use_libraries(); }
  backend_description description() const;

  const accelerator& memory_of() const noexcept override { return device; }
  bool has(data_type type, reduce_op op) const noexcept override;
  group* channels_for(collective what) const noexcept override;
  asio::awaitable<void> all_reduce(const_view data, mutable_view result, data_type type,
                                   reduction what) override;
  asio::awaitable<void> broadcast(mutable_view data, int root) override;
  asio::awaitable<void> reduce(const_view data, mutable_view result, data_type type, reduction what,
                               int root) override;
  asio::awaitable<void> all_gather(const_view from, mutable_view into) override;
  asio::awaitable<void> reduce_scatter(const_view from, mutable_view into, data_type type,
                                       reduction what) override;
  asio::awaitable<void> all_to_all(call& c, const_view from, mutable_view into) override;

  /// Runs the levels of a call. On failure ends the groups of both levels, reports the failure to
  /// every rank, and throws once nothing accesses a view any more.
  asio::awaitable<void> run_levels(const char* call, asio::awaitable<void> work);

  /// Runs one of several concurrent levels; the first failure is the one reported to the ranks.
  asio::awaitable<void> level(const char* call, asio::awaitable<void> work);

  /// Scratch memory on the device, valid until the next call.
  mutable_view scratch(std::size_t bytes);
  /// Queues a copy on the stream of `down`.
  void copy(void* to, const void* from, std::size_t bytes);
  /// Waits for all work on that stream.
  asio::awaitable<void> synchronize_down();
  /// Waits for all work on the stream of that group.
  asio::awaitable<void> synchronize_group(const vendor_group& which);

  group& all;
  accelerator& device;
  const division ranks;
  device_watch watch;
  std::unique_ptr<communicator> inside;
  /// The leaders with this rank's local rank, by island; null: one island, or this rank is not a
  /// leader.
  std::unique_ptr<communicator> across;
  /// The library's communicators for data to the leaders and from them; null: this rank is alone in
  /// its island; `up` also if there is only one island.
  std::unique_ptr<vendor_group> down, up;

 private:
  accelerator::stream down_stream() const noexcept { return down ? down->stream() : own_.get(); }
  void watch_peer();
  void abort_group(const error& why);
  asio::awaitable<void> synchronize();

  device_stream own_;
  buffer scratch_;
  std::unique_ptr<peer_watch> peer_watch_;
};

inline std::byte* bytes_at(const mutable_view& of, std::size_t offset = 0) noexcept {
  return static_cast<std::byte*>(of.data) + offset;
}
inline const std::byte* bytes_at(const const_view& of, std::size_t offset = 0) noexcept {
  return static_cast<const std::byte*>(of.data) + offset;
}

}  // namespace tandem::detail
