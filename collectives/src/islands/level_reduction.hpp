#pragma once

#include "islands/parts.hpp"

namespace tandem::detail {

/// How the levels combine: the vendor's library by its own numbers inside, Tandem across. A factor
/// of a premultiplied_sum is applied inside, or, by who is alone in its island, on the way across.
class level_reduction {
 public:
  /// Islands can do it. The same on all ranks.
  static bool is_possible(const island_parts& in, data_type type, reduce_op op) noexcept;
  /// @pre is_possible. @par Errors of the library, as of its calls.
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
  bool has_made_ = false;  // of inside_
};

}  // namespace tandem::detail
