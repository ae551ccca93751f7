#pragma once

#include <array>
#include <cstddef>
#include <tandem/channel.hpp>
#include <unordered_map>

namespace tandem::protocol {

/// The state of each flow in one half of a session. References stay valid, and no state is removed.
///
/// A message looks up its flow several times, and successive calls use consecutive flows, so a
/// small direct-mapped cache is searched before the hash table.
template <class State>
class flow_table {
 public:
  /// Null for a flow that was never used.
  State* find(flow_id id) noexcept {
    recent& last = recent_[id % recent_.size()];
    if (last.state != nullptr && last.id == id) return last.state;
    const auto found = all_.find(id);
    if (found == all_.end()) return nullptr;
    last = {id, &found->second};
    return last.state;
  }
  /// Adds the flow if it is new; null where that would exceed `max_flows`.
  State* find_or_add(flow_id id, std::size_t max_flows) {
    if (State* const known = find(id)) return known;
    return all_.size() < max_flows ? &all_[id] : nullptr;
  }

  auto begin() noexcept { return all_.begin(); }
  auto end() noexcept { return all_.end(); }

 private:
  struct recent {
    flow_id id = 0;
    State* state = nullptr;
  };

  std::unordered_map<flow_id, State> all_;
  std::array<recent, 64> recent_{};  // the number of calls that a group may have open
};

}  // namespace tandem::protocol
