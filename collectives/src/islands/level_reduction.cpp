#include "islands/level_reduction.hpp"

namespace tandem::detail {

bool level_reduction::is_possible(const island_parts& in, data_type type, reduce_op op) noexcept {
  return in.has_levels() && detail::vendor_type(type, in.ranks.min_library_version) &&
         (vendor_op(op, type) || op == reduce_op::premultiplied_sum);
}

level_reduction::level_reduction(island_parts& in, data_type type, reduction what)
    : in_(in),
      type_(type),
      across_(what),
      vendor_type_(*detail::vendor_type(type, in.ranks.min_library_version)) {
  if (const std::optional<int> op = vendor_op(what.op, type)) {
    inside_ = *op;
    return;
  }
  if (!in.down) return;
  across_ = premultiplied_sum(1);
  inside_ = in.down->make_factor(what.factor, type, vendor_type_);
  has_made_ = true;
}

level_reduction::~level_reduction() {
  if (has_made_) in_.down->free_op(inside_);
}

}  // namespace tandem::detail
