#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <tandem/channel.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transports/rails/nic/lane_connection.hpp"

namespace tandem::rails {

/// Registrations for operations in progress: one for each operation and NIC.
class registration_cache {
 public:
  /// Null: this NIC cannot access it. Tried only once for an operation.
  const registered_memory* find(lane_connection& by, operation& op, mutable_view what,
                                bool by_peer) {
    std::vector<entry>& all = entries_of(&op);
    op.registered = true;
    for (const entry& one : all) {
      if (one.domain == by.domain()) return one.memory.get();
    }
    return all.emplace_back(entry{by.domain(), by.registration_for(what, by_peer)}).memory.get();
  }
  void deregister(const operation& op) noexcept {
    auto ended = entries_.extract(&op);
    if (ended.empty()) return;
    ended.mapped().clear();
    if (spare_.size() < spare_.capacity()) spare_.push_back(std::move(ended));
  }
  void forget() noexcept { entries_.clear(); }

 private:
  struct entry {
    const void* domain;
    std::shared_ptr<const registered_memory> memory;
  };
  using table = std::unordered_map<const operation*, std::vector<entry>>;

  std::vector<entry>& entries_of(const operation* op) {
    if (const auto known = entries_.find(op); known != entries_.end()) return known->second;
    if (spare_.empty()) {
      spare_.reserve(std::min(entries_.size() + 1, max_spare));
      return entries_[op];
    }
    table::node_type reused = std::move(spare_.back());
    spare_.pop_back();
    reused.key() = op;
    return entries_.insert(std::move(reused)).position->second;
  }

  static constexpr std::size_t max_spare = 1024;

  table entries_;
  std::vector<table::node_type> spare_;  // kept for their memory
};

}  // namespace tandem::rails
