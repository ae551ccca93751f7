#pragma once

#include <fmt/format.h>

#include <string>
#include <tandem/collectives.hpp>
#include <vector>

#include "collectives/inputs.hpp"

namespace tandem::test {

struct device_call {
  collective what;
  algorithm how;
  data_type type = data_type::float32;
  reduce_op op = reduce_op::sum;
  std::size_t count = 0;  ///< elements of a rank's block
  int root = 0;
  bool in_place = false;
  bool listed = false;  ///< blocks of unequal length, where the collective knows them
};

inline std::string text(const device_call& c, int ranks) {
  return fmt::format("{} by {}, {} of {} {}, {} ranks, root {}{}{}", name(c.what), name(c.how),
                     name(c.op), c.count, name(c.type), ranks, c.root,
                     c.in_place ? ", in place" : "", c.listed ? ", listed" : "");
}

inline bool combines(collective what) {
  return what == collective::reduce || what == collective::all_reduce ||
         what == collective::reduce_scatter;
}

/// Inputs and results of all ranks in one call.
class data_of_call {
 public:
  data_of_call(const device_call& c, int ranks) : c_(c), ranks_(ranks) {
    const auto n = static_cast<std::size_t>(ranks);
    for (std::size_t r = 0; r < n; ++r) {
      const std::size_t elements = !c.listed ? c.count : r % 3 == 1 ? 0 : c.count / (r + 1);
      each_.push_back(elements * bytes_of(c.type));
      total_ += each_.back();
    }
    for (int r = 0; r < ranks; ++r) {
      const std::size_t own = each_[static_cast<std::size_t>(r)];
      from_.push_back(made(has_all(true) ? total_ : own, r));
      into_.emplace_back(has_all(false) ? total_ : own, std::byte{0xab});
      if (!c.in_place || c.what != collective::all_gather) continue;
      std::ranges::copy(from_.back(), into_.back().begin() + offset(r));
    }
  }

  /// `there` maps a host view of a rank to the view that is passed to the call.
  template <class There>
  asio::awaitable<void> call(communicator& among, There there) {
    const int r = among.rank();
    const auto i = static_cast<std::size_t>(r);
    const auto at = static_cast<std::size_t>(offset(r));
    const mutable_view own = there(r, mutable_view(from_[i]));
    const mutable_view other = there(r, mutable_view(into_[i]));
    const reduction what(c_.op, factor_of(r));
    switch (c_.what) {
      case collective::broadcast:
        return broadcast(among, own, c_.root, c_.how);
      case collective::all_reduce:
        return all_reduce(among, own, c_.in_place ? own : other, c_.type, what, c_.how);
      case collective::reduce:
        return reduce(among, own, c_.in_place ? own : other, c_.type, what, c_.root, c_.how);
      case collective::all_gather: {
        const const_view mine = c_.in_place ? other.part(at, each_[i]) : own;
        if (c_.listed) return all_gather_v(among, mine, other, each_, c_.how);
        return all_gather(among, mine, other, c_.how);
      }
      case collective::reduce_scatter: {
        const mutable_view mine = c_.in_place ? own.part(at, each_[i]) : other;
        if (c_.listed) return reduce_scatter_v(among, own, mine, each_, c_.type, what, c_.how);
        return reduce_scatter(among, own, mine, c_.type, what, c_.how);
      }
      case collective::gather:
        if (c_.listed) return gather_v(among, own, other, each_, c_.root, c_.how);
        return gather(among, own, other, c_.root, c_.how);
      case collective::scatter:
        if (c_.listed) return scatter_v(among, own, other, each_, c_.root, c_.how);
        return scatter(among, own, other, c_.root, c_.how);
      default:
        return all_to_all(among, own, other, c_.how);
    }
  }

  /// Compares results and inputs, which must be unchanged.
  bool operator==(const data_of_call& other) const {
    return from_ == other.from_ && into_ == other.into_;
  }

 private:
  /// Whether the input (`from`) or the result holds the blocks of all ranks.
  bool has_all(bool from) const {
    if (c_.what == collective::all_to_all) return true;
    if (c_.what == collective::all_gather || c_.what == collective::gather) return !from;
    return from && (c_.what == collective::reduce_scatter || c_.what == collective::scatter);
  }
  std::vector<std::byte> made(std::size_t bytes, int rank) const {
    return packed(c_.type, elements_of(c_.type, rank, bytes / bytes_of(c_.type)));
  }
  std::ptrdiff_t offset(int rank) const {
    std::size_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += each_[static_cast<std::size_t>(r)];
    return static_cast<std::ptrdiff_t>(sum);
  }

  const device_call c_;
  const int ranks_;
  std::vector<std::size_t> each_;
  std::size_t total_ = 0;
  std::vector<std::vector<std::byte>> from_, into_;
};

}  // namespace tandem::test
