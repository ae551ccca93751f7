#pragma once

#include <fmt/format.h>

#include <string>
#include <tandem/collectives.hpp>
#include <vector>

#include "collectives/nan_cases.hpp"

namespace tandem::test {

/// A minimum or maximum of `nan_cases`.
struct nan_call {
  collective what;
  algorithm how;
  data_type type;
  reduce_op op;
  std::size_t first, count;  ///< number of cases; of reduce_scatter, per block
  int root = 0;
};

inline std::string text(const nan_call& c, int ranks) {
  return fmt::format("{} by {}, {} of {}, cases {} to {}, {} ranks, root {}", name(c.what),
                     name(c.how), name(c.op), name(c.type), c.first, c.first + c.count, ranks,
                     c.root);
}

/// Inputs and results of all ranks in one call.
class data_of_nan_call {
 public:
  data_of_nan_call(const nan_call& c, int ranks) : c_(c), cases_(c.type, ranks) {
    const std::size_t blocks =
        c.what == collective::reduce_scatter ? static_cast<std::size_t>(ranks) : 1;
    std::vector<element> expected;
    for (std::size_t i = 0; i < c.count; ++i) {
      expected.push_back(cases_.expected(c.op, c.first + i));
    }
    expected_ = packed(c.type, expected);
    for (int r = 0; r < ranks; ++r) {
      std::vector<element> inputs;
      for (std::size_t i = 0; i < blocks * c.count; ++i) {
        inputs.push_back(cases_.input(r, c.first + i % c.count));
      }
      from_.push_back(packed(c.type, inputs));
      into_.emplace_back(expected_.size(), std::byte{0xab});
    }
  }

  /// `there` maps a host view of a rank to the view that is passed to the call.
  template <class There>
  asio::awaitable<void> call(communicator& among, There there) {
    const int r = among.rank();
    const auto i = static_cast<std::size_t>(r);
    const const_view from = there(r, mutable_view(from_[i]));
    const mutable_view into = there(r, mutable_view(into_[i]));
    if (c_.what == collective::all_reduce) {
      return all_reduce(among, from, into, c_.type, c_.op, c_.how);
    }
    if (c_.what == collective::reduce) {
      return reduce(among, from, into, c_.type, c_.op, c_.root, c_.how);
    }
    return reduce_scatter(among, from, into, c_.type, c_.op, c_.how);
  }

  /// The first wrong result; empty if there is none.
  std::string wrong() const {
    const std::vector<element> wanted = unpacked(c_.type, expected_.data(), c_.count);
    for (std::size_t r = 0; r < into_.size(); ++r) {
      if (c_.what == collective::reduce && static_cast<int>(r) != c_.root) continue;
      const std::vector<element> got = unpacked(c_.type, into_[r].data(), c_.count);
      for (std::size_t i = 0; i < c_.count; ++i) {
        if (got[i] == wanted[i]) continue;
        std::string inputs;
        for (int q = 0; q < static_cast<int>(into_.size()); ++q) {
          inputs += fmt::format(" {:#x}", cases_.input(q, c_.first + i));
        }
        return fmt::format("rank {}: of{} came {:#x}, not {:#x}", r, inputs, got[i], wanted[i]);
      }
    }
    return {};
  }

 private:
  const nan_call c_;
  const nan_cases cases_;
  std::vector<std::byte> expected_;
  std::vector<std::vector<std::byte>> from_, into_;
};

}  // namespace tandem::test
