#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Groups of one name. A rank is in one of them, or in none.
struct rank_groups {
  std::string name;
  std::vector<std::vector<int>> members;  ///< of each group its ranks, in their order there

  /// Which one the rank is in.
  std::optional<std::size_t> find(int rank) const noexcept;
};

/// How the ranks of a job divide into parallel groups, in several dimensions at once, each rank in
/// one group of each: "pipeline=2,data=2,tensor=2". The leftmost dimension is the outermost: ranks
/// of one group of the last have neighbouring numbers, and those of the first lie farthest apart.
/// Without I/O.
///
/// Names are words of the user's own (letters, digits, _ and -, a letter first); "tensor", "data",
/// "pipeline" and "expert" are the usual ones. No name means anything to Tandem: what carries a
/// group follows from its ranks (`choose_backends`).
class parallel_layout {
 public:
  struct dimension {
    std::string name;
    int size = 0;
  };

  /// @par Errors `errc::bad_option`: which dimension, why, what to write.
  static parallel_layout parse(std::string_view text);

  /// The product of the sizes.
  int ranks() const noexcept;
  const std::vector<dimension>& dimensions() const noexcept { return dimensions_; }
  /// The groups along a dimension, in the order of their first ranks.
  rank_groups groups(std::size_t dimension) const;
  /// As it was written.
  std::string text() const;
  /// @par Errors `errc::bad_option` where it is one for another number of ranks; the sizes that
  /// would do.
  void check(int ranks) const;
  /// @par Errors `errc::bad_option` where it is no name of a dimension.
  static void check_name(std::string_view name);

 private:
  parallel_layout() = default;
  std::vector<dimension> dimensions_;
};

/// "0-3,8": runs of ranks in short.
std::string ranks_text(std::span<const int> ranks);

}  // namespace tandem
