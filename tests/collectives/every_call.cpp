#include "collectives/every_call.hpp"

#include <algorithm>

namespace tandem::test {
namespace {

struct kind {
  collective what;
  algorithm how;
};

std::vector<kind> every_kind() {
  std::vector<kind> all;
  for (std::size_t i = 0; i < collective_count; ++i) {
    const auto what = static_cast<collective>(i);
    for (const algorithm how : algorithms_of(what)) {
      if (how != algorithm::two_level) all.push_back({what, how});  // needs several hosts
    }
  }
  return all;
}

const std::vector<kind>& kinds() {
  static const std::vector<kind> all = every_kind();
  return all;
}

/// Several chunks per rank, except for calls over a board.
std::size_t elements_for(algorithm how) {
  return how == algorithm::board ? 200 : 2000;
}

}  // namespace

int every_call::count() {
  return static_cast<int>(kinds().size());
}

std::string every_call::name(int which) {
  const kind& one = kinds()[static_cast<std::size_t>(which)];
  return std::string(tandem::name(one.what)) + " by " + std::string(tandem::name(one.how));
}

std::string every_call::test_name(int which) {
  std::string text = name(which);
  std::ranges::replace(text, ' ', '_');
  return text;
}

/// The last rank is the root.
bool every_call::waits_for(int which, int lost, int ranks) {
  const kind& one = kinds()[static_cast<std::size_t>(which)];
  const int v = (lost + 1) % ranks;  // counted from the root
  const bool is_leaf = v % 2 == 1 || v + 1 == ranks;
  switch (one.what) {
    case collective::broadcast:
    case collective::scatter:
      if (one.how == algorithm::direct || one.how == algorithm::board) return v == 0;
      return one.how == algorithm::tree ? !is_leaf : v + 1 < ranks;
    case collective::reduce:
      return one.how != algorithm::board || v != 0;
    default:
      return true;
  }
}

asio::awaitable<void> every_call::make(communicator& among, int which) {
  const kind& one = kinds()[static_cast<std::size_t>(which)];
  const auto n = static_cast<std::size_t>(among.size());
  const int root = among.size() - 1;
  constexpr data_type type = data_type::float32;
  constexpr reduce_op op = reduce_op::sum;
  const std::size_t elements = elements_for(one.how);
  data_.assign(elements, 1.0f);
  all_.assign(elements * n, 2.0f);
  switch (one.what) {
    case collective::barrier:
      return barrier(among);
    case collective::broadcast:
      return broadcast(among, data_, root, one.how);
    case collective::reduce:
      return reduce(among, data_, data_, type, op, root, one.how);
    case collective::all_reduce:
      return all_reduce(among, all_, type, op, one.how);
    case collective::all_gather:
      return all_gather(among, data_, all_, one.how);
    case collective::reduce_scatter:
      return reduce_scatter(among, all_, data_, type, op, one.how);
    case collective::gather:
      return gather(among, data_, all_, root, one.how);
    case collective::scatter:
      return scatter(among, all_, data_, root, one.how);
    case collective::all_to_all:
      break;
  }
  data_.resize(all_.size());
  return all_to_all(among, all_, data_, one.how);
}

}  // namespace tandem::test
