#pragma once

#include <boost/asio/steady_timer.hpp>
#include <tandem/collectives/islands.hpp>
#include <tandem/device_watch.hpp>

#include "call.hpp"
#include "islands/division.hpp"
#include "islands/loss_watch.hpp"
#include "islands/vendor_group.hpp"

namespace tandem::detail {

/// What a rank says of itself. @par Errors `errc::unsupported_memory`: it has no such device.
island_fact own_fact(const island_member& mine);

/// What the islands of one rank stand on: who is where, the groups of both levels, and memory and a
/// stream for what goes between them.
class island_parts {
 public:
  island_parts(communicator& over, accelerator& of, const std::vector<island_fact>& said);
  /// Every rank calls it, once. @param library  null: there is none here
  asio::awaitable<void> connect(const nccl* library);

  int rank() const noexcept { return all.rank(); }
  int island() const noexcept { return ranks.island_of[static_cast<std::size_t>(rank())]; }
  int place() const noexcept { return ranks.place_of[static_cast<std::size_t>(rank())]; }
  int islands() const noexcept { return static_cast<int>(ranks.members.size()); }
  const std::vector<int>& mine() const noexcept {
    return ranks.members[static_cast<std::size_t>(island())];
  }
  /// Inside its island this rank is not alone.
  bool has_inside() const noexcept { return mine().size() > 1; }
  /// It exchanges with other islands.
  bool exchanges() const noexcept { return place() < ranks.places; }
  /// Calls go through the levels; else the communicator's own do all of it. The same on all ranks.
  bool has_levels() const noexcept { return all.size() > 1 && ranks.is_native(); }

  /// What is wrong with a view of a call that goes through the levels: what the communicator's own
  /// would say, or memory of another device than this rank's.
  std::optional<error> wrong_view(const char* call, const const_view& data) const;
  std::optional<error> wrong_operands(const char* call, const const_view& data, data_type type,
                                      reduction what) const;

  /// Does what a call does in the levels. When it fails, ends the groups of both, tells every rank,
  /// and throws once nothing touches a view any more.
  asio::awaitable<void> carry_through(const char* call, asio::awaitable<void> work);

  /// One of several that go on at once; the first that fails is what the ranks hear of.
  asio::awaitable<void> level(const char* call, asio::awaitable<void> work);

  /// So much memory of the device, until the next call.
  mutable_view scratch(std::size_t bytes);
  /// Queues a copy on the stream of what happens inside the island first.
  void copy(void* to, const void* from, std::size_t bytes);
  /// All that is on that stream is done.
  asio::awaitable<void> done_below();
  asio::awaitable<void> done_with(const vendor_group& which);

  communicator& all;
  accelerator& device;
  const division ranks;
  device_watch watch;
  std::unique_ptr<communicator> inside;
  /// The ranks at this one's place, by island; null: there is one island, or this rank stays
  /// inside.
  std::unique_ptr<communicator> across;
  /// To the places, and from them; null: this rank is alone, or, of `up`, there is one island.
  std::unique_ptr<vendor_group> down, up;

 private:
  accelerator::stream below() const noexcept { return down ? down->stream() : own_.get(); }
  void listen();
  void hear(const error& why);
  void give_up(const error& why);
  asio::awaitable<void> settle();

  device_stream own_;
  buffer scratch_;
  std::unique_ptr<loss_watch> losses_;
  asio::steady_timer patience_;
};

inline std::byte* bytes_at(const mutable_view& of, std::size_t offset = 0) noexcept {
  return static_cast<std::byte*>(of.data) + offset;
}
inline const std::byte* bytes_at(const const_view& of, std::size_t offset = 0) noexcept {
  return static_cast<const std::byte*>(of.data) + offset;
}

}  // namespace tandem::detail
