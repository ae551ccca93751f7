#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <tandem/channel.hpp>
#include <unordered_map>
#include <vector>

#include "transports/rails/nic/lane_connection.hpp"

namespace tandem::rails {

/// Registrations for operations in progress: one for each operation and NIC.
class registration_cache {
 public:
  /// Null: this NIC cannot access it. Tried only once for an operation.
  const registered_memory* find(lane_connection& by, operation& op, mutable_view what,
                                bool by_peer) {
    std::vector<entry>& all = entries_[&op];
    op.registered = true;
    for (const entry& one : all) {
      if (one.domain == by.domain()) return one.memory.get();
    }
    return all.emplace_back(entry{by.domain(), by.registration_for(what, by_peer)}).memory.get();
  }
  void deregister(const operation& op) noexcept { entries_.erase(&op); }
  void forget() noexcept { entries_.clear(); }

 private:
  struct entry {
    const void* domain;
    std::shared_ptr<const registered_memory> memory;
  };
  std::unordered_map<const operation*, std::vector<entry>> entries_;
};

}  // namespace tandem::rails
