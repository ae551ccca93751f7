#pragma once

#include <tandem/collectives/collectives.hpp>

namespace tandem::detail {

/// into[i] = other[i] op into[i] for each element: `other` comes from earlier ranks.
void combine_before(void* into, const void* other, std::size_t bytes, data_type type, reduce_op op);
/// into[i] = into[i] op other[i]: `other` comes from later ranks.
void combine_after(void* into, const void* other, std::size_t bytes, data_type type, reduce_op op);

}  // namespace tandem::detail
