#pragma once

#include <tandem/pipeline_schedule.hpp>

namespace tandem::detail {

/// The schedule v_uneven: see `pipeline_kind`. @pre the shape is valid and has two chunks.
pipeline_schedule make_v_uneven(const pipeline_shape& shape);

}  // namespace tandem::detail
