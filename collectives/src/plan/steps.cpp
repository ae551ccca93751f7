#include "plan/steps.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace tandem::detail {
namespace {

std::uint64_t most(const std::vector<std::uint64_t>& counts) {
  return counts.empty() ? 0 : *std::ranges::max_element(counts);
}

/// Collects steps; equal neighbours become one that is done several times.
class list {
 public:
  explicit list(const layout& where) : where_(where), n_(where.ranks()) {}

  int n() const { return n_; }
  void add(step one) {
    if (one.inside + one.outside == 0) return;
    if (!steps_.empty()) {
      step same = one;
      same.times = steps_.back().times;
      if (same == steps_.back()) {
        steps_.back().times += one.times;
        return;
      }
    }
    steps_.push_back(one);
  }
  /// Everybody sends to the rank so far ahead.
  void shift(int by, std::uint64_t part, bool combines = false, bool chunked = false,
             std::uint64_t times = 1) {
    std::vector<message> sent;
    for (int r = 0; r < n_; ++r) sent.push_back({r, (r + by) % n_});
    step one = step_of(where_, sent, part, static_cast<std::uint64_t>(n_));
    one.combines = combines;
    one.chunked = chunked;
    one.times = times;
    add(one);
  }
  void send(const std::vector<message>& sent, std::uint64_t part, std::uint64_t whole,
            bool combines = false) {
    step one = step_of(where_, sent, part, whole);
    one.combines = combines;
    add(one);
  }
  std::vector<step> take() { return std::move(steps_); }

  const layout& where() const { return where_; }

 private:
  const layout& where_;
  const int n_;
  std::vector<step> steps_;
};

int levels(int n) {
  return std::bit_width(static_cast<unsigned>(n - 1));
}

void around(list& to, bool combines) {
  const auto turns = static_cast<std::uint64_t>(to.n() - 1);
  to.shift(1, 1, combines, true, turns);
}

/// The excess over a power of two comes in before, and goes out after: rank 2i + 1 through 2i.
struct fold {
  explicit fold(int n)
      : doubling(static_cast<int>(std::bit_floor(static_cast<unsigned>(n)))),
        folded(n - doubling) {}

  int rank(int index) const { return index < folded ? 2 * index : index + folded; }
  std::vector<message> in() const {
    std::vector<message> sent;
    for (int i = 0; i < folded; ++i) sent.push_back({2 * i + 1, 2 * i});
    return sent;
  }
  std::vector<message> out() const {
    std::vector<message> sent;
    for (int i = 0; i < folded; ++i) sent.push_back({2 * i, 2 * i + 1});
    return sent;
  }
  std::vector<message> with_partner(int distance) const {
    std::vector<message> sent;
    for (int i = 0; i < doubling; ++i) sent.push_back({rank(i), rank(i ^ distance)});
    return sent;
  }

  int doubling;
  int folded;
};

void doubling(list& to) {
  const fold f(to.n());
  to.send(f.in(), 1, 1, true);
  for (int d = 1; d < f.doubling; d *= 2) to.send(f.with_partner(d), 1, 1, true);
  to.send(f.out(), 1, 1);
}

void halving(list& to, bool gathers) {
  const fold f(to.n());
  const auto whole = static_cast<std::uint64_t>(f.doubling);
  to.send(f.in(), 1, 1, true);
  for (int d = f.doubling / 2; d > 0; d /= 2) {
    to.send(f.with_partner(d), static_cast<std::uint64_t>(d), whole, true);
  }
  if (gathers) {
    for (int d = 1; d < f.doubling; d *= 2) {
      to.send(f.with_partner(d), static_cast<std::uint64_t>(d), whole);
    }
  }
  const auto n = static_cast<std::uint64_t>(to.n());
  to.send(f.out(), 1, gathers ? 1 : n);
}

/// A level of the binomial tree: who is `below` from its parent.
std::vector<message> tree_level(int n, int below, bool up) {
  std::vector<message> sent;
  for (int v = 0; v + below < n; v += 2 * below) {
    sent.push_back(up ? message{v + below, v} : message{v, v + below});
  }
  return sent;
}

void tree(list& to, bool up) {
  const int top = 1 << levels(to.n()) >> 1;
  for (int i = 0; i < levels(to.n()); ++i) {
    to.send(tree_level(to.n(), up ? 1 << i : top >> i, up), 1, 1, up);
  }
}

/// As the tree, with the blocks of all ranks below.
void tree_of_blocks(list& to, bool up) {
  const int top = 1 << levels(to.n()) >> 1;
  for (int i = 0; i < levels(to.n()); ++i) {
    const int below = up ? 1 << i : top >> i;
    const int blocks = std::min(below, to.n() - below);
    to.send(tree_level(to.n(), below, up), static_cast<std::uint64_t>(blocks),
            static_cast<std::uint64_t>(to.n()));
  }
}

void chain(list& to, bool combines) {
  std::vector<message> sent;
  for (int r = 0; r + 1 < to.n(); ++r) sent.push_back({r, r + 1});
  step one = step_of(to.where(), sent, 1, 1);
  one.times = static_cast<std::uint64_t>(to.n() - 1);
  one.combines = combines;
  one.piped = true;
  to.add(one);
}

void bruck_blocks(list& to) {
  for (int have = 1; have < to.n(); have *= 2) {
    to.shift(to.n() - have, static_cast<std::uint64_t>(std::min(have, to.n() - have)));
  }
}

void bruck_exchange(list& to) {
  for (int bit = 1; bit < to.n(); bit *= 2) {
    std::uint64_t blocks = 0;
    for (int i = 1; i < to.n(); ++i) blocks += (i & bit) != 0 ? 1 : 0;
    to.shift(bit, blocks);
  }
}

void pairwise(list& to, bool combines) {
  for (int k = 1; k < to.n(); ++k) to.shift(k, 1, combines);
}

void all_at_once(list& to) {
  const layout& where = to.where();
  step one;
  one.whole = static_cast<std::uint64_t>(to.n());
  one.part = 1;
  for (const std::vector<int>& here : where.members) {
    const auto mine = static_cast<std::uint64_t>(here.size());
    const std::uint64_t others = one.whole - mine;
    one.inside = std::max(one.inside, mine - 1);
    one.outside = std::max(one.outside, others);
    one.crossing = std::max(one.crossing, mine * others);
  }
  to.add(one);
}

void root_at_once(list& to) {
  std::vector<message> sent;
  for (int r = 1; r < to.n(); ++r) sent.push_back({0, r});
  to.send(sent, 1, static_cast<std::uint64_t>(to.n()));
}

void dissemination(list& to) {
  for (int distance = 1; distance < to.n(); distance *= 2) to.shift(distance, 0);
}

}  // namespace

step step_of(const layout& where, const std::vector<message>& messages, std::uint64_t part,
             std::uint64_t whole) {
  const auto ranks = static_cast<std::size_t>(where.ranks());
  const auto hosts = static_cast<std::size_t>(where.hosts());
  std::vector<std::uint64_t> in_from(ranks), in_to(ranks), out_from(ranks), out_to(ranks);
  std::vector<std::uint64_t> leaves(hosts), enters(hosts);
  for (const message& m : messages) {
    const auto from = static_cast<std::size_t>(m.from);
    const auto to = static_cast<std::size_t>(m.to);
    const auto from_host = static_cast<std::size_t>(where.host[from]);
    const auto to_host = static_cast<std::size_t>(where.host[to]);
    if (from_host == to_host) {
      ++in_from[from];
      ++in_to[to];
    } else {
      ++out_from[from];
      ++out_to[to];
      ++leaves[from_host];
      ++enters[to_host];
    }
  }
  step result;
  result.inside = std::max(most(in_from), most(in_to));
  result.outside = std::max(most(out_from), most(out_to));
  result.crossing = std::max(most(leaves), most(enters));
  result.part = part;
  result.whole = whole;
  return result;
}

std::vector<step> steps_of(collective what, algorithm how, const layout& where) {
  list to(where);
  if (to.n() < 2) return {};
  const bool combines = what == collective::reduce || what == collective::all_reduce ||
                        what == collective::reduce_scatter;
  switch (how) {
    case algorithm::ring:
      around(to, combines);
      if (what == collective::all_reduce) around(to, false);
      break;
    case algorithm::recursive_doubling:
      doubling(to);
      break;
    case algorithm::halving_doubling:
      halving(to, what == collective::all_reduce);
      break;
    case algorithm::tree:
      if (what == collective::gather || what == collective::scatter) {
        tree_of_blocks(to, what == collective::gather);
      } else {
        tree(to, what == collective::reduce);
      }
      break;
    case algorithm::chain:
      chain(to, combines);
      break;
    case algorithm::bruck:
      if (what == collective::all_gather) bruck_blocks(to);
      if (what == collective::all_to_all) bruck_exchange(to);
      break;
    case algorithm::pairwise:
      pairwise(to, combines);
      break;
    case algorithm::direct:
      if (what == collective::barrier) {
        dissemination(to);
      } else if (what == collective::gather || what == collective::scatter) {
        root_at_once(to);
      } else {
        all_at_once(to);
      }
      break;
    case algorithm::two_level:
    case algorithm::automatic:
      break;
  }
  return to.take();
}

}  // namespace tandem::detail
