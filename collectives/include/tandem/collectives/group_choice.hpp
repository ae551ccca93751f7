#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tandem/collectives/parallel_layout.hpp>
#include <tandem/memory.hpp>
#include <vector>

namespace tandem {

/// What carries the collectives of a parallel group.
enum class group_backend : std::uint8_t {
  alone,     ///< one rank: nothing is sent
  library,   ///< one island: its vendor's library does all of it (`islands`)
  levels,    ///< the library inside islands, channels across (`islands`)
  channels,  ///< channels: host memory, ranks that share no island, or no library they could use
};

/// What a rank says of itself before groups are made.
struct rank_facts {
  /// Of a library that is there and whose version nobody has asked for, as of a plan without a job.
  static constexpr int some_library = 1;

  memory_kind kind = memory_kind::host;  ///< where what it sends lies
  int colour = 0;                        ///< as `island_member::colour`
  int library = 0;     ///< the version of its vendor's, as the vendor counts; 0: it has none
  std::string device;  ///< names it, in 32 characters: no two have the same
};

/// Which back-end a group has, and the reason.
struct group_choice {
  std::string name;                       ///< of its dimension
  std::size_t number = 0;                 ///< among the groups of that name
  std::vector<int> ranks;                 ///< in their order in the group
  std::vector<std::vector<int>> islands;  ///< those ranks by island
  group_backend how = group_backend::alone;
  std::string by;   ///< "NCCL 2.28.3", "NCCL 2.28.3 inside, peer copies across", "shm", "nothing"
  std::string why;  ///< "all on cuda, one island", "ranks 0 and 1 share a device"

  /// The collectives go by `tandem::islands`.
  bool has_islands() const noexcept {
    return how == group_backend::library || how == group_backend::levels;
  }
  /// The way between the rank at place `at` and the next one (of the last the first) is one that
  /// the group's collectives take.
  bool takes_way(std::size_t at) const noexcept;
  /// "tensor 0, ranks 0-1: NCCL 2.28.3 (all on cuda, one island)"
  std::string text() const;
};

/// How messages travel from one rank to another, as `fabric::way_to` says. It is asked for each
/// rank of a group and the next, where `group_choice::takes_way`.
using way_between = std::function<std::string(int from, int to)>;

/// What carries each group, from what all ranks have said: the same on all. Inside one island the
/// vendor's library; where some ranks of a group share an island, that inside and channels across;
/// else channels alone. The idea is differentiated back-end selection, of "Joint Training on AMD
/// and NVIDIA GPUs" (arXiv 2602.18007). Without I/O.
/// @param said  by rank, of all that the groups name
std::vector<group_choice> choose_backends(const rank_groups& groups,
                                          std::span<const rank_facts> said, const way_between& way);

/// A line for each: what ranks compare.
std::string text_of(std::span<const group_choice> choices);

}  // namespace tandem
