#include <algorithm>
#include <tandem/collectives.hpp>

namespace tandem {
namespace {

constexpr std::string_view collective_names[collective_count] = {
    "barrier",        "broadcast", "reduce",  "all_reduce", "all_gather",
    "reduce_scatter", "gather",    "scatter", "all_to_all"};
constexpr std::string_view algorithm_labels[algorithm_count] = {
    "automatic", "ring",  "recursive_doubling", "halving_doubling", "tree",
    "chain",     "bruck", "pairwise",           "direct",           "two_level",
    "board"};

constexpr algorithm for_barrier[] = {algorithm::board, algorithm::direct};
constexpr algorithm for_broadcast[] = {algorithm::board, algorithm::tree, algorithm::chain,
                                       algorithm::two_level};
constexpr algorithm for_reduce[] = {algorithm::board, algorithm::tree, algorithm::chain};
constexpr algorithm for_all_reduce[] = {algorithm::board,
                                        algorithm::ring,
                                        algorithm::recursive_doubling,
                                        algorithm::halving_doubling,
                                        algorithm::direct,
                                        algorithm::two_level};
constexpr algorithm for_all_gather[] = {algorithm::board, algorithm::ring, algorithm::bruck,
                                        algorithm::direct, algorithm::two_level};
constexpr algorithm for_reduce_scatter[] = {algorithm::board, algorithm::ring, algorithm::pairwise,
                                            algorithm::halving_doubling, algorithm::two_level};
constexpr algorithm for_rooted[] = {algorithm::direct, algorithm::tree};
constexpr algorithm for_all_to_all[] = {algorithm::board, algorithm::pairwise, algorithm::direct,
                                        algorithm::bruck};

}  // namespace

std::string_view name(collective what) noexcept {
  const auto index = static_cast<std::size_t>(what);
  return index < collective_count ? collective_names[index] : "unknown collective";
}

std::string_view name(algorithm how) noexcept {
  const auto index = static_cast<std::size_t>(how);
  return index < algorithm_count ? algorithm_labels[index] : "unknown algorithm";
}

std::span<const algorithm> algorithms_of(collective what) noexcept {
  switch (what) {
    case collective::barrier:
      return for_barrier;
    case collective::broadcast:
      return for_broadcast;
    case collective::reduce:
      return for_reduce;
    case collective::all_reduce:
      return for_all_reduce;
    case collective::all_gather:
      return for_all_gather;
    case collective::reduce_scatter:
      return for_reduce_scatter;
    case collective::gather:
    case collective::scatter:
      return for_rooted;
    case collective::all_to_all:
      return for_all_to_all;
  }
  return {};
}

std::vector<std::string_view> algorithm_names(collective what) {
  std::vector<std::string_view> names{name(algorithm::automatic)};
  for (const algorithm candidate : algorithms_of(what)) names.push_back(name(candidate));
  return names;
}

std::optional<algorithm> find_algorithm(collective what, std::string_view label) noexcept {
  if (label == name(algorithm::automatic)) return algorithm::automatic;
  for (const algorithm candidate : algorithms_of(what)) {
    if (label == name(candidate)) return candidate;
  }
  return std::nullopt;
}

/// Reductions keep their order of combination, so a call gives the same bits with and without
/// board.
algorithm without_board(collective what) noexcept {
  switch (what) {
    case collective::broadcast:
    case collective::reduce:
      return algorithm::tree;
    case collective::all_reduce:
      return algorithm::recursive_doubling;
    case collective::all_gather:
      return algorithm::bruck;
    case collective::reduce_scatter:
      return algorithm::pairwise;
    default:
      return algorithm::direct;
  }
}

bool is_defined(collective what, algorithm how) noexcept {
  if (how == algorithm::automatic) return static_cast<std::size_t>(what) < collective_count;
  const std::span<const algorithm> known = algorithms_of(what);
  return std::ranges::find(known, how) != known.end();
}

}  // namespace tandem
