#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/steps.hpp"

namespace tandem::detail {

struct message {
  int from;
  int to;
};

/// Collects the steps of an operation; consecutive equal steps become a repeated step.
class step_list {
 public:
  explicit step_list(const layout& where) : where_(where) {}

  const layout& where() const noexcept { return where_; }
  /// The number of ranks.
  int n() const noexcept { return where_.ranks(); }

  /// Adds a step, unless it sends and copies nothing.
  void add(const step& new_step);
  /// Adds a step with these messages, each of part / whole of the data.
  void send(const std::vector<message>& sent, std::uint64_t part, std::uint64_t whole,
            bool combines = false);
  /// Adds a step in which each rank sends that many of its n blocks to the rank `ahead` of it.
  void shift(int ahead, std::uint64_t blocks, bool combines = false, bool chunked = false,
             std::uint64_t times = 1);

  /// Adds a step in which each rank copies that many of its n blocks within its own memory.
  void copy(std::uint64_t blocks);

  std::vector<step> take() noexcept { return std::move(steps_); }

 private:
  const layout& where_;
  std::vector<step> steps_;
};

/// The step that sends these messages.
step step_of(const layout& where, const std::vector<message>& messages, std::uint64_t part,
             std::uint64_t whole);

}  // namespace tandem::detail
