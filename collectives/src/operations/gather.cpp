#include <fmt/format.h>

#include <utility>

#include "algorithms/algorithms.hpp"
#include "arguments.hpp"

// gather and scatter share their argument checks and their start.
namespace tandem {
namespace detail {
namespace {

/// The arguments of one call on this rank.
struct rooted_call {
  const group& in() const noexcept { return *g; }
  bool gathers() const noexcept { return kind == collective::gather; }
  bool is_root() const noexcept { return g->rank() == root; }
  /// The root's view of all blocks; ignored on other ranks.
  const_view all() const noexcept { return gathers() ? const_view(into) : from; }
  /// This rank's own block.
  const_view block() const noexcept { return gathers() ? from : const_view(into); }

  const std::shared_ptr<group>& g;
  const char* name;
  collective kind;
  const_view from;
  mutable_view into;
  int root;
  algorithm how;
};

std::optional<error> check_call(const rooted_call& r) {
  if (auto wrong =
          first_error(check_root(r.in(), r.name, r.root), check_memory(*r.g, r.name, r.block()),
                      check_algorithm(r.kind, r.how))) {
    return wrong;
  }
  return r.is_root() ? check_memory(*r.g, r.name, r.all()) : std::nullopt;
}

/// @pre the arguments are checked, and the algorithm is selected.
asio::awaitable<void> start(const rooted_call& r, blocks cut) {
  const std::size_t total = cut.total();
  if (total == 0) return empty_call(r.g);
  if (r.g->size() == 1) return single_rank(r.g, r.from, r.into);
  const bool is_tree = r.how == algorithm::tree;
  lease slot(r.g, call_record(r.kind, r.how, total, r.root), is_tree ? total : 0,
             r.g->queue_for(r.is_root() ? r.all() : r.block()));
  call& c = *slot;
  if (is_tree) {
    return run_call(std::move(slot), r.gathers() ? tree_gather(c, r.from, r.into, r.root)
                                                 : tree_scatter(c, r.from, r.into, r.root));
  }
  return run_call(std::move(slot), r.gathers()
                                       ? direct_gather(c, r.from, r.into, std::move(cut), r.root)
                                       : direct_scatter(c, r.from, r.into, std::move(cut), r.root));
}

asio::awaitable<void> with_equal_blocks(rooted_call r) {
  if (auto wrong = check_call(r)) return refuse(*wrong);
  blocks cut(r.block().bytes, r.g->size());
  if (r.is_root()) {
    if (auto wrong = check_equal_blocks(r.in(), r.name, r.all(), r.block())) return refuse(*wrong);
    if (auto wrong = check_block_position(r.name, r.block(), r.all(), cut.at(r.root)))
      return refuse(*wrong);
  }
  if (r.how == algorithm::automatic) r.how = r.g->choose(r.kind, cut.total()).how;
  return start(r, std::move(cut));
}

asio::awaitable<void> with_listed_blocks(rooted_call r,
                                         std::span<const std::size_t> bytes_of_rank) {
  if (auto wrong = check_call(r)) return refuse(*wrong);
  if (r.how == algorithm::tree) {
    return refuse(error(errc::bad_input,
                        fmt::format("{}: tree requires blocks of equal length", r.name),
                        "choose direct"));
  }
  if (auto wrong = check_block(r.in(), r.name, r.block(), bytes_of_rank)) return refuse(*wrong);
  if (r.is_root()) {
    if (auto wrong = check_lengths(r.in(), r.name, r.all(), bytes_of_rank)) return refuse(*wrong);
  }
  blocks cut(bytes_of_rank);
  if (r.is_root()) {
    if (auto wrong = check_block_position(r.name, r.block(), r.all(), cut.at(r.root)))
      return refuse(*wrong);
  }
  r.how = algorithm::direct;
  return start(r, std::move(cut));
}

}  // namespace
}  // namespace detail

asio::awaitable<void> gather(communicator& among, const_view mine, mutable_view all, int root,
                             algorithm how) {
  return detail::with_equal_blocks(
      {among.internals(), "gather", collective::gather, mine, all, root, how});
}

asio::awaitable<void> gather_v(communicator& among, const_view mine, mutable_view all,
                               std::span<const std::size_t> bytes_of_rank, int root,
                               algorithm how) {
  return detail::with_listed_blocks(
      {among.internals(), "gather_v", collective::gather, mine, all, root, how}, bytes_of_rank);
}

asio::awaitable<void> scatter(communicator& among, const_view all, mutable_view mine, int root,
                              algorithm how) {
  return detail::with_equal_blocks(
      {among.internals(), "scatter", collective::scatter, all, mine, root, how});
}

asio::awaitable<void> scatter_v(communicator& among, const_view all, mutable_view mine,
                                std::span<const std::size_t> bytes_of_rank, int root,
                                algorithm how) {
  return detail::with_listed_blocks(
      {among.internals(), "scatter_v", collective::scatter, all, mine, root, how}, bytes_of_rank);
}

}  // namespace tandem
