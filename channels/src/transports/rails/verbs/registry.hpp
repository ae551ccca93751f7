#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <tandem/memory.hpp>

#include "transports/rails/nic/lane_connection.hpp"
#include "transports/rails/verbs/owned.hpp"
#include "transports/rails/verbs/recycled.hpp"
#include "transports/rails/verbs/registration_method.hpp"

namespace tandem::verbs {

class adapter;

/// User memory registered with one device: regions, each registered when it is added or first
/// needed and kept until it is removed, and registrations for one message alone.
///
/// Other registrations are not cached. Freed memory is not reported, and its addresses may be
/// mapped to other pages later, so a registration may outlive its message only where the user
/// guarantees that the memory stays: by holding the `region`. A peer could go on writing to a
/// region after its message, as the key stays valid; the key of a registration for one message ends
/// with it. Registrations count against RLIMIT_MEMLOCK and take entries in the NIC, so above
/// `bounds` idle regions are deregistered, least recently used first, and registered again when
/// needed.
///
/// Registrations request relaxed ordering: the NIC may then write arriving data in any order, and
/// only a completion guarantees that its bytes and all before it are visible. No bytes are read
/// here before that completion, and no two requests in flight write to the same address.
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

  void bound(const bounds& limits) {
    bounds_ = limits;
    evict_idle(0);
  }

  /// @param exported  its descriptor stays open until `remove`
  void add(id which, mutable_view memory, const dmabuf& exported);
  /// Operations that still use it keep it registered until they complete.
  void remove(id which) noexcept;
  /// "rxe0: registered host memory", or the device's error and what happens instead.
  std::string describe(id which) const;

  /// The registration by which the NIC reads `what`, or the peer's NIC writes it: that of its
  /// region, or one of its own from `min_bytes` on. Null: the payload is copied.
  /// @param on  kept alive by the result
  std::shared_ptr<const rails::registered_memory> registration_for(mutable_view what, bool by_peer,
                                                                   std::uint64_t min_bytes,
                                                                   std::shared_ptr<adapter> on);
  /// True for memory within a region registered with the NIC.
  bool is_zero_copy(const const_view& what);

  std::size_t registered_regions() const noexcept;
  std::uint64_t registered_bytes() const noexcept { return registered_bytes_; }

 private:
  struct entry {
    id which = 0;
    mutable_view memory;
    dmabuf exported;
    std::shared_ptr<owned_mr> mr;   // null: not registered now
    std::string why;                // how it was registered, or why not
    bool is_unregistrable = false;  // a later attempt would fail too
  };

  entry* find(const const_view& what) noexcept;
  owned_mr register_memory(mutable_view what, const dmabuf& exported, registration_method how,
                           int access);
  bool ensure_registered(entry& which);
  void evict_idle(std::uint64_t bytes);
  void forget(entry& which) noexcept;

  const detail::ibverbs& driver_;
  ibv_pd* const domain_;
  const std::string device_;
  bounds bounds_;
  int dmabuf_probe_ = -1;     // unknown
  std::list<entry> entries_;  // most recently used first
  std::uint64_t registered_bytes_ = 0;
  std::shared_ptr<recycled_blocks> blocks_ = std::make_shared<recycled_blocks>();
};

}  // namespace tandem::verbs
