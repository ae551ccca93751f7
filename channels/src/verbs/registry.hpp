#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <tandem/memory.hpp>
#include <tandem/region.hpp>

#include "rails/wire.hpp"
#include "verbs/memory_way.hpp"
#include "verbs/owned.hpp"

namespace tandem::verbs {

class adapter;

/// Memory of users that one device reaches: their regions, each registered when it is first needed
/// and kept until it goes, and what is registered for one message alone.
///
/// Nothing else is kept. Who frees memory tells nobody, and its addresses come again with other
/// pages behind them, so a registration may outlive its message only where somebody has promised
/// that the memory stays: whoever holds the `region`. That is also the memory that a peer may go on
/// writing to after its message, for its key stays good; the key of a registration for one message
/// ends with it. What is registered counts against RLIMIT_MEMLOCK and takes entries in the NIC, so
/// idle regions go where there are too many, the least lately used first, and come back by need.
///
/// Relaxed ordering is asked for: a NIC may then write what arrives in any order, and only the
/// completion of a request says that its bytes and all before it are visible. Nobody here looks at
/// bytes before that completion, and no two requests that are under way write to one place.
class registry {
 public:
  struct bounds {
    std::size_t regions = 1024;
    std::uint64_t bytes = std::uint64_t{1} << 40;
  };
  using id = std::uint64_t;

  registry(const detail::ibverbs& driver, ibv_pd* domain, std::string device) noexcept
      : driver_(driver), domain_(domain), device_(std::move(device)) {}
  registry(const registry&) = delete;
  registry& operator=(const registry&) = delete;

  void bound(const bounds& most) {
    bounds_ = most;
    make_room(0);
  }

  /// @param exported  its descriptor stays open until `remove`
  void add(id which, mutable_view memory, const dmabuf& exported);
  /// Operations that still use it keep it registered until they are over.
  void remove(id which) noexcept;
  /// "rxe0: registered host memory", or what the device said, and what happens instead.
  std::string describe(id which) const;

  /// That lets the NIC read `what`, or the peer's write it: its region's, or one of its own where
  /// it has at least `least_bytes`. Null: it is copied.
  /// @param on  kept for as long as the result
  std::shared_ptr<const rails::reached_memory> reach(mutable_view what, bool by_peer,
                                                     std::uint64_t least_bytes,
                                                     std::shared_ptr<adapter> on);
  /// It lies in a region that the NIC reaches.
  bool reaches(const const_view& what);

  std::size_t registered_regions() const noexcept;
  std::uint64_t registered_bytes() const noexcept { return registered_bytes_; }

 private:
  struct entry {
    id which = 0;
    mutable_view memory;
    dmabuf exported;
    std::shared_ptr<owned_mr> mr;  // null: not now
    std::string why;               // how it was registered, or why not
    bool is_out_of_reach = false;  // whatever becomes free
  };

  entry* find(const const_view& what) noexcept;
  owned_mr register_memory(mutable_view what, const dmabuf& exported, memory_way how, int access);
  bool ensure(entry& which);
  void make_room(std::uint64_t bytes);
  void forget(entry& which) noexcept;

  const detail::ibverbs& driver_;
  ibv_pd* const domain_;
  const std::string device_;
  bounds bounds_;
  int dmabuf_probe_ = -1;     // unknown
  std::list<entry> entries_;  // the most lately used first
  std::uint64_t registered_bytes_ = 0;
};

}  // namespace tandem::verbs
