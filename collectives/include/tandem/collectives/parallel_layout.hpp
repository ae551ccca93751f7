#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// The groups with one name. A rank is in at most one of them.
struct rank_groups {
  std::string name;
  std::vector<std::vector<int>> members;  ///< by group: its ranks, in group order

  /// The index of the group that contains the rank.
  std::optional<std::size_t> find(int rank) const noexcept;
};

/// The division of a job's ranks into parallel groups in several dimensions, with each rank in one
/// group of each dimension: "pipeline=2,data=2,tensor=2". The leftmost dimension is the outermost:
/// ranks of a group of the last dimension are consecutive, those of the first are farthest apart.
/// Without I/O.
///
/// Names are free (letters, digits, _ and -, starting with a letter); "tensor", "data", "pipeline"
/// and "expert" are the usual ones. They have no meaning to Tandem: a group's back-end depends on
/// its ranks only (`choose_backends`).
class parallel_layout {
 public:
  struct dimension {
    std::string name;
    int size = 0;
  };

  /// @par Errors `errc::bad_option`: which dimension, why, and the syntax.
  static parallel_layout parse(std::string_view text);

  /// The product of the sizes.
  int ranks() const noexcept;
  const std::vector<dimension>& dimensions() const noexcept { return dimensions_; }
  /// The groups along a dimension, in the order of their first ranks.
  rank_groups groups(std::size_t dimension) const;
  /// The text that `parse` reads.
  std::string text() const;
  /// @par Errors `errc::bad_option` if the layout is for another number of ranks; suggests sizes
  /// that match.
  void check(int ranks) const;
  /// @par Errors `errc::bad_option` if it is not a valid name of a dimension.
  static void check_name(std::string_view name);

 private:
  parallel_layout() = default;
  std::vector<dimension> dimensions_;
};

/// A compact list of ranks: "0-3,8".
std::string ranks_text(std::span<const int> ranks);

}  // namespace tandem
