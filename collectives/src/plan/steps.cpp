#include "plan/steps.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "partition/fold.hpp"
#include "plan/step_list.hpp"

namespace tandem::detail {
namespace {

int levels(int n) {
  return std::bit_width(static_cast<unsigned>(n - 1));
}

void around(step_list& to, bool combines) {
  const auto turns = static_cast<std::uint64_t>(to.n() - 1);
  to.shift(1, 1, combines, true, turns);
}

/// The messages from the upper to the lower rank of each folded pair, or back.
std::vector<message> folded_pairs(const fold& f, bool in) {
  std::vector<message> sent;
  for (int i = 0; i < f.folded; ++i) {
    const int lower = f.rank_of(i);
    sent.push_back(in ? message{lower + 1, lower} : message{lower, lower + 1});
  }
  return sent;
}

std::vector<message> partners(const fold& f, int distance) {
  std::vector<message> sent;
  for (int i = 0; i < f.size; ++i) sent.push_back({f.rank_of(i), f.rank_of(i ^ distance)});
  return sent;
}

void doubling(step_list& to) {
  const fold f(to.n(), 0);
  to.send(folded_pairs(f, true), 1, 1, true);
  for (int d = 1; d < f.size; d *= 2) to.send(partners(f, d), 1, 1, true);
  to.send(folded_pairs(f, false), 1, 1);
}

/// Exchanges half of the data with the neighbour, then a quarter at distance 2, and so on; then
/// back.
void halving_doubling(step_list& to) {
  const fold f(to.n(), 0);
  const auto whole = static_cast<std::uint64_t>(f.size);
  to.send(folded_pairs(f, true), 1, 1, true);
  for (int d = 1; d < f.size; d *= 2) {
    to.send(partners(f, d), whole / static_cast<std::uint64_t>(2 * d), whole, true);
  }
  for (int d = f.size / 2; d > 0; d /= 2) {
    to.send(partners(f, d), whole / static_cast<std::uint64_t>(2 * d), whole);
  }
  to.send(folded_pairs(f, false), 1, 1);
}

/// Exchanges half of the blocks at a distance of half the ranks, a quarter at a quarter...
void halving(step_list& to) {
  const fold f(to.n(), 0);
  to.send(folded_pairs(f, true), 1, 1, true);
  for (int d = f.size / 2; d > 0; d /= 2) {
    to.send(partners(f, d), static_cast<std::uint64_t>(d), static_cast<std::uint64_t>(f.size),
            true);
  }
  to.send(folded_pairs(f, false), 1, static_cast<std::uint64_t>(to.n()));
}

/// A level of the binomial tree: the messages of ranks at distance `below` from their parent.
std::vector<message> tree_level(int n, int below, bool up) {
  std::vector<message> sent;
  for (int v = 0; v + below < n; v += 2 * below) {
    sent.push_back(up ? message{v + below, v} : message{v, v + below});
  }
  return sent;
}

void tree(step_list& to, bool up) {
  const int top = 1 << levels(to.n()) >> 1;
  for (int i = 0; i < levels(to.n()); ++i) {
    to.send(tree_level(to.n(), up ? 1 << i : top >> i, up), 1, 1, up);
  }
}

/// Like the tree, with the blocks of all ranks of the subtree in each message.
void tree_of_blocks(step_list& to, bool up) {
  const int top = 1 << levels(to.n()) >> 1;
  for (int i = 0; i < levels(to.n()); ++i) {
    const int below = up ? 1 << i : top >> i;
    const int blocks = std::min(below, to.n() - below);
    to.send(tree_level(to.n(), below, up), static_cast<std::uint64_t>(blocks),
            static_cast<std::uint64_t>(to.n()));
  }
}

void chain(step_list& to, bool combines) {
  std::vector<message> sent;
  for (int r = 0; r + 1 < to.n(); ++r) sent.push_back({r, r + 1});
  step new_step = step_of(to.where(), sent, 1, 1);
  new_step.times = static_cast<std::uint64_t>(to.n() - 1);
  new_step.combines = combines;
  new_step.piped = true;
  to.add(new_step);
}

/// Two ranks need no rotation of the gathered blocks.
void bruck_blocks(step_list& to) {
  for (int have = 1; have < to.n(); have *= 2) {
    to.shift(to.n() - have, static_cast<std::uint64_t>(std::min(have, to.n() - have)));
  }
  if (to.n() > 2) to.copy(static_cast<std::uint64_t>(to.n()));
}

/// Blocks are rotated before and after, and sent blocks are packed and unpacked.
void bruck_exchange(step_list& to) {
  std::uint64_t packed = 0;
  for (int bit = 1; bit < to.n(); bit *= 2) {
    std::uint64_t blocks = 0;
    for (int i = 1; i < to.n(); ++i) blocks += (i & bit) != 0 ? 1 : 0;
    to.shift(bit, blocks);
    packed += 2 * blocks;
  }
  to.copy(2 * static_cast<std::uint64_t>(to.n()) + packed);
}

/// Every rank sends `part` of n blocks to every other rank.
void all_at_once(step_list& to, int part, bool combines) {
  const layout& where = to.where();
  step new_step;
  new_step.whole = static_cast<std::uint64_t>(to.n());
  new_step.part = static_cast<std::uint64_t>(part);
  new_step.combines = combines;
  new_step.chunked = combines && part == 1;
  for (const std::vector<int>& here : where.members) {
    const auto mine = static_cast<std::uint64_t>(here.size());
    const std::uint64_t others = new_step.whole - mine;
    new_step.inside = std::max(new_step.inside, mine - 1);
    new_step.busy = std::max(new_step.busy, mine * (mine - 1));
    new_step.running = std::max(new_step.running, mine);
    new_step.outside = std::max(new_step.outside, others);
    new_step.crossing = std::max(new_step.crossing, mine * others);
  }
  to.add(new_step);
}

/// Combining operations have several partners at once.
void pairwise(step_list& to, bool combines) {
  if (combines) return all_at_once(to, 1, combines);
  for (int k = 1; k < to.n(); ++k) to.shift(k, 1);
}

void root_at_once(step_list& to) {
  std::vector<message> sent;
  for (int r = 1; r < to.n(); ++r) sent.push_back({0, r});
  to.send(sent, 1, static_cast<std::uint64_t>(to.n()));
}

/// `times` equal steps inside every host, each with `busy` concurrent messages to neighbours.
step inside_steps(std::uint64_t times, std::uint64_t busy, std::uint64_t whole) {
  return {.times = times, .inside = 1, .busy = busy, .running = busy, .part = 1, .whole = whole};
}

/// On a board each contributor writes once, and the ranks that need the data read it. In operations
/// with a root the other ranks need not run at the same time.
void board_step(step_list& to, collective what) {
  const auto n = static_cast<std::uint64_t>(to.n());
  const bool has_root = what == collective::broadcast || what == collective::reduce;
  const bool has_blocks = what == collective::all_gather || what == collective::reduce_scatter ||
                          what == collective::all_to_all;
  step new_step = inside_steps(1, has_root ? 1 : n, has_blocks ? n : 1);
  new_step.part = what == collective::barrier ? 0 : what == collective::broadcast ? 1 : n - 1;
  new_step.combines = what == collective::reduce || what == collective::all_reduce ||
                      what == collective::reduce_scatter;
  to.add(new_step);
}

void dissemination(step_list& to) {
  for (int distance = 1; distance < to.n(); distance *= 2) to.shift(distance, 0);
}

/// Around a ring of `hosts`, with `at_once` ranks of each in parallel.
void ring_across_hosts(step_list& to, std::uint64_t hosts, std::uint64_t at_once) {
  step new_step{.times = hosts - 1,
                .outside = 1,
                .crossing = at_once,
                .part = 1,
                .whole = hosts * at_once,
                .combines = true,
                .chunked = true,
                .level = 2};
  to.add(new_step);
  new_step.combines = false;
  to.add(new_step);
}

void two_level_all_reduce(step_list& to) {
  const layout& where = to.where();
  if (!where.two_levels()) {
    around(to, true);
    around(to, false);
    return;
  }
  const auto hosts = static_cast<std::uint64_t>(where.hosts());
  const std::uint64_t max_ranks_per_host = where.max_ranks_per_host();
  step inside = inside_steps(max_ranks_per_host - 1,
                             where.equal() ? max_ranks_per_host : max_ranks_per_host - 1,
                             where.equal() ? max_ranks_per_host : 1);
  inside.chunked = where.equal();
  inside.piped = !where.equal();
  inside.combines = true;
  inside.level = 1;
  to.add(inside);
  ring_across_hosts(to, hosts, where.equal() ? max_ranks_per_host : 1);
  inside.combines = false;
  inside.level = 3;
  to.add(inside);
}

void two_level_broadcast(step_list& to) {
  const layout& where = to.where();
  to.add({.times = static_cast<std::uint64_t>(where.hosts() - 1),
          .outside = 1,
          .crossing = 1,
          .part = 1,
          .level = 1,
          .piped = true});
  const std::uint64_t hops = where.max_ranks_per_host() - 1;
  step inside = inside_steps(hops, hops, 1);
  inside.level = 2;
  inside.piped = true;
  to.add(inside);
}

/// all_gather and reduce_scatter. Level 1 inside for what combines, else across.
void two_level_blocks(step_list& to, bool combines) {
  const layout& where = to.where();
  const auto n = static_cast<std::uint64_t>(to.n());
  if (!where.equal()) {
    const std::vector<int> order = where.in_order();
    std::vector<message> sent;
    for (std::size_t i = 0; i < order.size(); ++i) {
      sent.push_back({order[i], order[(i + 1) % order.size()]});
    }
    step new_step = step_of(where, sent, 1, n);
    new_step.times = n - 1;
    new_step.combines = combines;
    new_step.chunked = true;
    to.add(new_step);
    return;
  }
  const auto hosts = static_cast<std::uint64_t>(where.hosts());
  const std::uint64_t ranks = where.max_ranks_per_host();
  step inside = inside_steps(hosts * (ranks - 1), ranks, n);
  inside.combines = combines;
  inside.chunked = true;
  inside.level = combines ? 1 : 2;
  step across{.times = hosts - 1,
              .outside = 1,
              .crossing = ranks,
              .part = 1,
              .whole = n,
              .combines = combines,
              .chunked = true,
              .level = combines ? 2 : 1};
  to.add(combines ? inside : across);
  to.add(combines ? across : inside);
}

}  // namespace

std::vector<step> steps_of(collective what, algorithm how, const layout& where) {
  step_list to(where);
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
      if (what == collective::all_reduce) halving_doubling(to);
      if (what == collective::reduce_scatter) halving(to);
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
        all_at_once(to, what == collective::all_reduce ? to.n() : 1, combines);
      }
      break;
    case algorithm::two_level:
      if (what == collective::all_reduce) two_level_all_reduce(to);
      if (what == collective::broadcast) two_level_broadcast(to);
      if (what == collective::all_gather || what == collective::reduce_scatter) {
        two_level_blocks(to, combines);
      }
      break;
    case algorithm::board:
      if (where.hosts() == 1) board_step(to, what);
      break;
    case algorithm::automatic:
      break;
  }
  return to.take();
}

}  // namespace tandem::detail
