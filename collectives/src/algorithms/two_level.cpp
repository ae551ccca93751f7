#include "algorithms/two_level.hpp"

#include <algorithm>

namespace tandem::detail {
namespace {

/// While it lives, the call is one of a part of the group.
class on_level {
 public:
  on_level(call& c, group& part) noexcept : call_(c), whole_(std::exchange(c.in, &part)) {}
  ~on_level() { call_.in = whole_; }
  on_level(const on_level&) = delete;
  on_level& operator=(const on_level&) = delete;

 private:
  call& call_;
  group* const whole_;
};

ring_cut cut_for(const group& part, std::size_t bytes, std::size_t element_bytes,
                 std::size_t chunk_bytes) {
  return {blocks(bytes / element_bytes, element_bytes, part.size()), element_bytes, chunk_bytes};
}

asio::awaitable<void> through_segments(call& c, levels& in, const_view from, mutable_view data,
                                       reducer by, std::size_t chunk_bytes) {
  const std::size_t each = by.element_bytes();
  const ring_cut cut = cut_for(in.within(), data.bytes, each, chunk_bytes);
  const mutable_view mine = cut.segments.in(data, in.within().rank());
  {
    const on_level inside(c, in.within());
    co_await ring_reduce_scatter(c, from, mine, by.without_finish(), cut);
  }
  {
    const on_level across(c, *in.across());
    ring_cut segments = cut_for(*in.across(), mine.bytes, each, chunk_bytes);
    co_await ring_all_reduce(c, mine, mine, by.without_prepare(), std::move(segments));
  }
  const on_level inside(c, in.within());
  co_await ring_all_gather(c, mine, data, cut);
}

asio::awaitable<void> through_first_ranks(call& c, levels& in, const_view from, mutable_view data,
                                          reducer by, std::size_t chunk_bytes) {
  {
    const on_level inside(c, in.within());
    co_await chain_reduce(c, from, data, 0, by.without_finish(), chunk_bytes);
  }
  if (in.across() != nullptr) {
    const on_level across(c, *in.across());
    ring_cut cut = cut_for(*in.across(), data.bytes, by.element_bytes(), chunk_bytes);
    co_await ring_all_reduce(c, data, data, by.without_prepare(), std::move(cut));
  }
  const on_level inside(c, in.within());
  co_await chain_broadcast(c, data, 0, chunk_bytes);
}

}  // namespace

levels::levels(const group& whole) : whole_(whole), where_(whole.agreed().known().host_of_rank) {
  const auto me = static_cast<std::size_t>(whole.rank());
  within_ = part(where_.members[static_cast<std::size_t>(where_.host[me])]);
  const int place = where_.equal() ? where_.place[me] : 0;
  if (place != where_.place[me]) return;
  std::vector<int> ranks;
  for (const std::vector<int>& here : where_.members) {
    ranks.push_back(here[static_cast<std::size_t>(place)]);
  }
  across_ = part(ranks);
}

std::unique_ptr<group> levels::part(const std::vector<int>& ranks) const {
  std::vector<int> members;
  for (const int rank : ranks) members.push_back(whole_.member(rank));
  return std::make_unique<group>(whole_.over(), whole_.options(), std::move(members),
                                 static_cast<std::uint16_t>(whole_.id()));
}

group* levels::heads(int root) {
  const auto host = static_cast<std::size_t>(where_.host[static_cast<std::size_t>(root)]);
  std::vector<int> ranks;
  for (const std::vector<int>& here : where_.members) ranks.push_back(here[0]);
  ranks[host] = root;
  if (std::ranges::find(ranks, whole_.rank()) == ranks.end()) return nullptr;
  std::unique_ptr<group>& found = heads_[root == where_.members[host][0] ? -1 : root];
  if (!found) found = part(ranks);
  return found.get();
}

asio::awaitable<void> two_level_all_reduce(call& c, const_view from, mutable_view data, reducer by,
                                           std::size_t chunk_bytes) {
  levels& in = c.in->hosts();
  if (!in.where().two_levels()) {
    ring_cut cut = cut_for(*c.in, data.bytes, by.element_bytes(), chunk_bytes);
    co_await ring_all_reduce(c, from, data, by, std::move(cut));
  } else if (in.where().equal()) {
    co_await through_segments(c, in, from, data, by, chunk_bytes);
  } else {
    co_await through_first_ranks(c, in, from, data, by, chunk_bytes);
  }
}

std::size_t two_level_scratch(group& in, std::size_t bytes, const reducer& by,
                              std::size_t chunk_bytes) {
  const std::size_t each = by.element_bytes();
  levels& of = in.hosts();
  if (!of.where().two_levels()) {
    return ring_walk::window * cut_for(in, bytes, each, chunk_bytes).chunk_bytes;
  }
  if (of.where().equal()) {
    const ring_cut inside = cut_for(of.within(), bytes, each, chunk_bytes);
    const ring_cut across = cut_for(*of.across(), inside.segments.longest(), each, chunk_bytes);
    return ring_walk::window * std::max(3 * inside.chunk_bytes, across.chunk_bytes);
  }
  const std::size_t chain = 2 * chain_window * std::max(chunk_bytes, each);
  if (of.across() == nullptr) return chain;
  const ring_cut across = cut_for(*of.across(), bytes, each, chunk_bytes);
  return std::max(chain, ring_walk::window * across.chunk_bytes);
}

asio::awaitable<void> two_level_broadcast(call& c, mutable_view data, int root,
                                          std::size_t chunk_bytes) {
  levels& in = c.in->hosts();
  const layout& where = in.where();
  const auto root_host = static_cast<std::size_t>(where.host[static_cast<std::size_t>(root)]);
  group* const heads = in.heads(root);
  if (heads != nullptr) {
    const on_level across(c, *heads);
    co_await chain_broadcast(c, data, static_cast<int>(root_host), chunk_bytes);
  }
  const bool with_root =
      static_cast<std::size_t>(where.host[static_cast<std::size_t>(c.in->rank())]) == root_host;
  const int head = with_root ? where.place[static_cast<std::size_t>(root)] : 0;
  const on_level inside(c, in.within());
  co_await chain_broadcast(c, data, head, chunk_bytes);
}

}  // namespace tandem::detail
