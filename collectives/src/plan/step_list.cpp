#include "plan/step_list.hpp"

#include <algorithm>

namespace tandem::detail {
namespace {

std::uint64_t most(const std::vector<std::uint64_t>& counts) {
  return counts.empty() ? 0 : *std::ranges::max_element(counts);
}

}  // namespace

step step_of(const layout& where, const std::vector<message>& messages, std::uint64_t part,
             std::uint64_t whole) {
  const auto ranks = static_cast<std::size_t>(where.ranks());
  const auto hosts = static_cast<std::size_t>(where.hosts());
  std::vector<std::uint64_t> in_from(ranks), in_to(ranks), out_from(ranks), out_to(ranks);
  std::vector<std::uint64_t> running(hosts);
  std::vector<std::uint64_t> leaves(hosts), enters(hosts), stays(hosts);
  for (const message& m : messages) {
    const auto from = static_cast<std::size_t>(m.from);
    const auto to = static_cast<std::size_t>(m.to);
    const auto from_host = static_cast<std::size_t>(where.host[from]);
    const auto to_host = static_cast<std::size_t>(where.host[to]);
    if (from_host == to_host) {
      ++in_from[from];
      ++in_to[to];
      ++stays[from_host];
    } else {
      ++out_from[from];
      ++out_to[to];
      ++leaves[from_host];
      ++enters[to_host];
    }
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    if (in_from[r] + in_to[r] > 0) ++running[static_cast<std::size_t>(where.host[r])];
  }
  step result;
  result.inside = std::max(most(in_from), most(in_to));
  result.outside = std::max(most(out_from), most(out_to));
  result.crossing = std::max(most(leaves), most(enters));
  result.busy = most(stays);
  result.running = most(running);
  result.part = part;
  result.whole = whole;
  return result;
}

void step_list::add(const step& new_step) {
  if (new_step.times == 0 || (new_step.inside + new_step.outside == 0 && !new_step.local)) return;
  if (!steps_.empty()) {
    step same = new_step;
    same.times = steps_.back().times;
    if (same == steps_.back()) {
      steps_.back().times += new_step.times;
      return;
    }
  }
  steps_.push_back(new_step);
}

void step_list::send(const std::vector<message>& sent, std::uint64_t part, std::uint64_t whole,
                     bool combines) {
  step new_step = step_of(where_, sent, part, whole);
  new_step.combines = combines;
  add(new_step);
}

void step_list::copy(std::uint64_t blocks) {
  step new_step;
  new_step.busy = where_.max_ranks_per_host();
  new_step.part = blocks;
  new_step.whole = static_cast<std::uint64_t>(n());
  new_step.local = true;
  add(new_step);
}

void step_list::shift(int ahead, std::uint64_t blocks, bool combines, bool chunked,
                      std::uint64_t times) {
  std::vector<message> sent;
  for (int r = 0; r < n(); ++r) sent.push_back({r, (r + ahead) % n()});
  step new_step = step_of(where_, sent, blocks, static_cast<std::uint64_t>(n()));
  new_step.combines = combines;
  new_step.chunked = chunked;
  new_step.times = times;
  add(new_step);
}

}  // namespace tandem::detail
