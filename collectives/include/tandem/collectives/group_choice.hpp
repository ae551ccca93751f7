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

/// The back-end of the collectives of a parallel group.
enum class group_backend : std::uint8_t {
  alone,     ///< one rank: nothing is sent
  library,   ///< one island: the vendor's library only (`islands`)
  levels,    ///< the library inside islands, channels between them (`islands`)
  channels,  ///< channels only: host memory, no two ranks in one island, or no usable library
};

/// What ranks exchange about themselves before groups are made.
struct rank_facts {
  /// Version of a library that is present but was not asked for its version, as in a plan computed
  /// without a job.
  static constexpr int some_library = 1;

  memory_kind kind = memory_kind::host;  ///< the memory of its data
  int colour = 0;                        ///< as `island_member::colour`
  int library = 0;                       ///< version code of the vendor's library; 0: not available
  std::string device;                    ///< unique id of the device, 32 characters
};

/// The back-end of a group, and the reason for it.
struct group_choice {
  std::string name;                       ///< the name of its dimension
  std::size_t number = 0;                 ///< its index among the groups of that name
  std::vector<int> ranks;                 ///< in group order
  std::vector<std::vector<int>> islands;  ///< the same ranks by island
  group_backend how = group_backend::alone;
  std::string by;   ///< "NCCL 2.28.3", "NCCL 2.28.3 inside, peer copies across", "shm", "nothing"
  std::string why;  ///< "all on cuda, one island", "ranks 0 and 1 share a device"

  /// The collectives use `tandem::islands`.
  bool has_islands() const noexcept {
    return how == group_backend::library || how == group_backend::levels;
  }
  /// Whether the group's collectives use the path from the rank with index `at` in the group to the
  /// next one (from the last to the first).
  bool takes_way(std::size_t at) const noexcept;
  /// "tensor 0, ranks 0-1: NCCL 2.28.3 (all on cuda, one island)"
  std::string text() const;
};

/// Returns the transport between two ranks, as `fabric::way_to` reports it. Called for each rank of
/// a group and the next one where `group_choice::takes_way` is true.
using way_between = std::function<std::string(int from, int to)>;

/// Chooses the back-end of each group from the facts of all ranks; the result is the same on every
/// rank. All ranks in one island: the vendor's library. Some ranks share an island: the library
/// inside islands and channels between them. Otherwise channels only. Source: differentiated
/// back-end selection, "Joint Training on AMD and NVIDIA GPUs" (arXiv 2602.18007). Without I/O.
/// @param said  the facts by rank, for all ranks that the groups name
std::vector<group_choice> choose_backends(const rank_groups& groups,
                                          std::span<const rank_facts> said, const way_between& way);

/// One line for each choice: the text that ranks compare.
std::string text_of(std::span<const group_choice> choices);

}  // namespace tandem
