#pragma once

#include <array>
#include <cstddef>
#include <tandem/operation.hpp>
#include <unordered_map>

namespace tandem::protocol {

/// What one half of a session knows of each flow; states stay where they are, and none is
/// forgotten.
///
/// A message asks for its flow several times, and calls that follow each other take flows in turn:
/// those that were asked for last are found without the hash table.
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
  /// The same, new where there was none; null where it would be more than `most`.
  State* find_or_add(flow_id id, std::size_t most) {
    if (State* const known = find(id)) return known;
    return all_.size() < most ? &all_[id] : nullptr;
  }

  auto begin() noexcept { return all_.begin(); }
  auto end() noexcept { return all_.end(); }

 private:
  struct recent {
    flow_id id = 0;
    State* state = nullptr;
  };

  std::unordered_map<flow_id, State> all_;
  std::array<recent, 64> recent_{};  // as many calls as a group may have open
};

}  // namespace tandem::protocol
