#pragma once

#include <tandem/pipeline_schedule.hpp>

namespace tandem::detail {

// The steps of one rank in each schedule whose order no cost changes: pure functions of their
// arguments. @pre 0 <= rank < ranks, micro_batches >= 0, chunks >= 1.

/// One chunk, all forwards first.
pipeline_steps gpipe_order(int micro_batches);
/// One chunk: ranks - rank - 1 forwards, then one forward and one backward alternately.
pipeline_steps one_f_one_b_order(int rank, int ranks, int micro_batches);
/// Several chunks; with one chunk, 1F1B.
pipeline_steps interleaved_order(int rank, int ranks, int micro_batches, int chunks);
/// One chunk, with split backwards.
pipeline_steps zb_h1_order(int rank, int ranks, int micro_batches);
/// Two chunks in V placement, with split backwards.
pipeline_steps zb_v_order(int rank, int ranks, int micro_batches);

/// All ranks of v_uneven, which simulates: see `pipeline_kind`. @pre the shape is valid and has two
/// chunks.
pipeline_schedule make_v_uneven(const pipeline_shape& shape);

}  // namespace tandem::detail
