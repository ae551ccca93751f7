#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tandem {

/// The collective operations. A `_v` variant counts as the same operation.
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

/// How a collective is carried out. The declarations in `src/algorithms/algorithms.hpp` give each
/// algorithm's order of combination, cost and source.
enum class algorithm : std::uint8_t {
  automatic,           ///< the plan decides, by operation and length
  ring,                ///< chunks from neighbour to neighbour, all links busy
  recursive_doubling,  ///< exchange with a partner at distance 1, 2, 4...
  halving_doubling,    ///< reduce-scatter by halves, then all-gather by doubles
  tree,                ///< whole messages down or up a binomial tree
  chain,               ///< chunks from rank to rank, each forwarded while the next arrives
  bruck,               ///< log2 n rounds, each forwarding the blocks received so far
  pairwise,            ///< one partner after the other
  direct,              ///< all partners at once
  two_level,           ///< inside each host, then across hosts
  board,               ///< each rank writes once to shared memory that all ranks of the host read
};
inline constexpr std::size_t algorithm_count = 11;

std::string_view name(collective what) noexcept;
std::string_view name(algorithm how) noexcept;

/// The algorithms of an operation, without `automatic`.
std::span<const algorithm> algorithms_of(collective what) noexcept;
/// Their names, "automatic" first: the choices of a user.
std::vector<std::string_view> algorithm_names(collective what);
/// The algorithm with that name; empty if the operation has none.
std::optional<algorithm> find_algorithm(collective what, std::string_view name) noexcept;
/// The algorithm used instead of `algorithm::board` where ranks share no board, and for long calls.
algorithm without_board(collective what) noexcept;
/// Whether the operation has that algorithm; true for `automatic`.
bool is_defined(collective what, algorithm how) noexcept;

}  // namespace tandem
