#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tandem {

/// The operations that a group of ranks does together. With and without lengths by rank (`_v`) are
/// one.
enum class collective : std::uint8_t {
  barrier,
  broadcast,
  reduce,
  all_reduce,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
};
inline constexpr std::size_t collective_count = 9;

/// How one of them is done. Each is described, with its order of combination, its cost and its
/// source, where it is declared in `src/algorithms.hpp`.
enum class algorithm : std::uint8_t {
  automatic,           ///< the plan decides, by operation and length
  ring,                ///< chunks from neighbour to neighbour, all links busy
  recursive_doubling,  ///< with a partner at distance 1, 2, 4...
  halving_doubling,    ///< reduce-scatter by halves, then all-gather by doubles
  tree,                ///< down or up a binomial tree, whole messages
  chain,               ///< chunks from rank to rank, each sent on while the next arrives
  bruck,               ///< log2 n rounds of what the ranks behind already have
  pairwise,            ///< one partner after the other
  direct,              ///< all partners at once
  two_level,           ///< inside each host, then across hosts
  board,               ///< each writes once where all ranks of a host read
};
inline constexpr std::size_t algorithm_count = 11;

std::string_view name(collective what) noexcept;
std::string_view name(algorithm how) noexcept;

/// Those that exist for an operation, `automatic` not among them.
std::span<const algorithm> algorithms_of(collective what) noexcept;
/// Their names, "automatic" first: what a user may choose.
std::vector<std::string_view> algorithm_names(collective what);
/// That of one of those names; nothing where there is none.
std::optional<algorithm> find_algorithm(collective what, std::string_view name) noexcept;
/// What takes the place of `algorithm::board` where ranks share none, and for long calls.
algorithm without_board(collective what) noexcept;
/// True for `automatic`, too.
bool is_defined(collective what, algorithm how) noexcept;

}  // namespace tandem
