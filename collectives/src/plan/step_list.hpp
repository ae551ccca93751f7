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

/// Collects the steps of an operation; equal neighbours become one that is done several times.
class step_list {
 public:
  explicit step_list(const layout& where) : where_(where) {}

  const layout& where() const noexcept { return where_; }
  /// Ranks.
  int n() const noexcept { return where_.ranks(); }

  /// Nothing where nothing is sent.
  void add(const step& one);
  /// These messages, each of part / whole of the data.
  void send(const std::vector<message>& sent, std::uint64_t part, std::uint64_t whole,
            bool combines = false);
  /// Everybody sends so many blocks, one for each rank, to the rank so far ahead.
  void shift(int ahead, std::uint64_t blocks, bool combines = false, bool chunked = false,
             std::uint64_t times = 1);

  /// Everybody turns so many blocks, one for each rank, in its own memory.
  void copy(std::uint64_t blocks);

  std::vector<step> take() noexcept { return std::move(steps_); }

 private:
  const layout& where_;
  std::vector<step> steps_;
};

/// The step that sends these.
step step_of(const layout& where, const std::vector<message>& messages, std::uint64_t part,
             std::uint64_t whole);

}  // namespace tandem::detail
