#pragma once

#include <optional>

#include "islands/parts.hpp"

namespace tandem::detail {

/// The reduction of each level: the vendor's type and operation codes inside islands, Tandem's
/// reduction across. The factor of a premultiplied_sum is applied inside, or across by a rank that
/// is alone in its island.
class level_reduction {
 public:
  /// Whether the levels support the reduction. The same on all ranks.
  static bool is_possible(const island_parts& in, data_type type, reduce_op op) noexcept;
  /// @pre is_possible. @par Errors Those of the library's calls.
  level_reduction(island_parts& in, data_type type, reduction what);
  level_reduction(const level_reduction&) = delete;
  level_reduction& operator=(const level_reduction&) = delete;

  /// The library's codes. @pre this rank has others in its island
  int vendor_type() const noexcept { return inside_->type; }
  int inside() const noexcept { return inside_->op; }
  data_type type() const noexcept { return type_; }
  reduction across() const noexcept { return across_; }
  std::size_t element_bytes() const noexcept { return bytes_of(type_); }

 private:
  const data_type type_;
  reduction across_;
  std::optional<vendor_reduction> inside_;  ///< empty: this rank is alone in its island
};

}  // namespace tandem::detail
