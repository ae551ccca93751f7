#pragma once

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
  ~level_reduction();
  level_reduction(const level_reduction&) = delete;
  level_reduction& operator=(const level_reduction&) = delete;

  int vendor_type() const noexcept { return vendor_type_; }
  int inside() const noexcept { return inside_; }
  data_type type() const noexcept { return type_; }
  reduction across() const noexcept { return across_; }
  std::size_t element_bytes() const noexcept { return bytes_of(type_); }

 private:
  island_parts& in_;
  const data_type type_;
  reduction across_;
  int vendor_type_ = 0, inside_ = 0;
  bool has_made_ = false;  // inside_ needs to be freed
};

}  // namespace tandem::detail
