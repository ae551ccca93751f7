#include <fmt/format.h>

#include <utility>

#include "algorithms/algorithms.hpp"
#include "arguments.hpp"

// gather and scatter: one the other way around.
namespace tandem {
namespace detail {
namespace {

/// What both check. `all` holds the blocks where this rank is the root.
std::optional<error> wrong_rooted(const group& g, const char* call, collective kind, int root,
                                  const const_view& all, const const_view& block, algorithm how) {
  if (auto wrong = first_wrong(wrong_root(g, call, root), wrong_memory(call, block),
                               wrong_algorithm(kind, how))) {
    return wrong;
  }
  if (g.rank() != root) return std::nullopt;
  return wrong_memory(call, all);
}

std::optional<error> wrong_equal(const group& g, const char* call, int root, const const_view& all,
                                 const const_view& block) {
  if (g.rank() != root) return std::nullopt;
  if (auto wrong = wrong_share(g, call, all, block)) return wrong;
  return wrong_place(call, block, all, blocks(block.bytes, g.size()).at(root));
}

std::optional<error> wrong_listed(const group& g, const char* call, int root, const const_view& all,
                                  const const_view& block,
                                  std::span<const std::size_t> bytes_of_rank, algorithm how) {
  if (how == algorithm::tree) {
    return error(errc::bad_input, fmt::format("{}: a tree carries blocks of equal length", call),
                 "choose direct");
  }
  if (auto wrong = wrong_block(g, call, block, bytes_of_rank)) return wrong;
  if (g.rank() != root) return std::nullopt;
  if (auto wrong = wrong_lengths(g, call, all, bytes_of_rank)) return wrong;
  return wrong_place(call, block, all, blocks(bytes_of_rank).at(root));
}

asio::awaitable<void> alone(std::shared_ptr<group> in, const_view from, mutable_view into) {
  co_await nothing(std::move(in));
  put_own(from, into);
}

/// @pre the arguments are right.
asio::awaitable<void> start_gather(const std::shared_ptr<group>& g, const_view mine,
                                   mutable_view all, blocks cut, int root, algorithm how) {
  constexpr collective kind = collective::gather;
  const std::size_t total = cut.total();
  if (total == 0) return nothing(g);
  if (g->size() == 1) return alone(g, mine, all);
  const bool is_tree = how == algorithm::tree;
  lease place(g, call_record(kind, how, total, root), is_tree ? total : 0);
  call& c = *place;
  if (is_tree) return carry_out(std::move(place), tree_gather(c, mine, all, root));
  return carry_out(std::move(place), direct_gather(c, mine, all, std::move(cut), root));
}

/// @pre the arguments are right.
asio::awaitable<void> start_scatter(const std::shared_ptr<group>& g, const_view all,
                                    mutable_view mine, blocks cut, int root, algorithm how) {
  constexpr collective kind = collective::scatter;
  const std::size_t total = cut.total();
  if (total == 0) return nothing(g);
  if (g->size() == 1) return alone(g, all, mine);
  const bool is_tree = how == algorithm::tree;
  lease place(g, call_record(kind, how, total, root), is_tree ? total : 0);
  call& c = *place;
  if (is_tree) return carry_out(std::move(place), tree_scatter(c, all, mine, root));
  return carry_out(std::move(place), direct_scatter(c, all, mine, std::move(cut), root));
}

algorithm chosen(const group& g, collective kind, std::size_t total, algorithm how) {
  return how == algorithm::automatic ? g.choose(kind, total).how : how;
}

}  // namespace
}  // namespace detail

asio::awaitable<void> gather(communicator& among, const_view mine, mutable_view all, int root,
                             algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  constexpr collective kind = collective::gather;
  if (auto wrong = first_wrong(wrong_rooted(*g, "gather", kind, root, all, mine, how),
                               wrong_equal(*g, "gather", root, all, mine))) {
    return refuse(*wrong);
  }
  blocks cut(mine.bytes, g->size());
  how = chosen(*g, kind, cut.total(), how);
  return start_gather(g, mine, all, std::move(cut), root, how);
}

asio::awaitable<void> gather_v(communicator& among, const_view mine, mutable_view all,
                               std::span<const std::size_t> bytes_of_rank, int root,
                               algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  constexpr collective kind = collective::gather;
  if (auto wrong = first_wrong(wrong_rooted(*g, "gather_v", kind, root, all, mine, how),
                               wrong_listed(*g, "gather_v", root, all, mine, bytes_of_rank, how))) {
    return refuse(*wrong);
  }
  return start_gather(g, mine, all, blocks(bytes_of_rank), root, algorithm::direct);
}

asio::awaitable<void> scatter(communicator& among, const_view all, mutable_view mine, int root,
                              algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  constexpr collective kind = collective::scatter;
  if (auto wrong = first_wrong(wrong_rooted(*g, "scatter", kind, root, all, mine, how),
                               wrong_equal(*g, "scatter", root, all, mine))) {
    return refuse(*wrong);
  }
  blocks cut(mine.bytes, g->size());
  how = chosen(*g, kind, cut.total(), how);
  return start_scatter(g, all, mine, std::move(cut), root, how);
}

asio::awaitable<void> scatter_v(communicator& among, const_view all, mutable_view mine,
                                std::span<const std::size_t> bytes_of_rank, int root,
                                algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  constexpr collective kind = collective::scatter;
  if (auto wrong =
          first_wrong(wrong_rooted(*g, "scatter_v", kind, root, all, mine, how),
                      wrong_listed(*g, "scatter_v", root, all, mine, bytes_of_rank, how))) {
    return refuse(*wrong);
  }
  return start_scatter(g, all, mine, blocks(bytes_of_rank), root, algorithm::direct);
}

}  // namespace tandem
