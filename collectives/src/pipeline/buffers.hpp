#pragma once

#include <tandem/pipeline.hpp>
#include <vector>

#include "communicator/call.hpp"

namespace tandem::detail {

/// Buffers at the sender and at the receiver of a flow.
inline constexpr int buffers_each_end = 2;
static_assert(pipeline_buffers == 2 * buffers_each_end);

/// One direction to or from the stage before or after a chunk: buffers used in turn. If that stage
/// is a chunk of this rank, both use the same ring, which has the buffers of both ends and needs no
/// transfers. Without such a stage it is empty.
struct message_ring {
  peer_channel path;
  flow_id flow = 0;
  transfer* transfers = nullptr;
  mutable_view memory;
  std::size_t bytes = 0;   ///< per message
  std::size_t stride = 0;  ///< from buffer to buffer
  int buffers = 0;

  bool is_remote() const { return path.on != nullptr; }
  /// @pre is_remote(), micro_batch >= 0.
  transfer& at(int micro_batch) const { return transfers[micro_batch % buffers_each_end]; }
  mutable_view view(int micro_batch) const {
    if (buffers == 0) return {};
    return memory.part(static_cast<std::size_t>(micro_batch % buffers) * stride, bytes);
  }
};

/// The messages of one chunk.
struct chunk_buffers {
  message_ring activations_in, activations_out, gradients_in, gradients_out;
};

/// Bytes of scratch memory for a rank's buffers.
/// @par Errors thrown: `errc::bad_input`: two chunks of this rank that follow each other differ in
///   the length of their messages.
std::size_t buffer_bytes(const group& g, const pipeline_schedule& all, const pipeline_stage& work);

/// The buffers of each chunk of a rank, in the call's scratch memory, with transfers and flows.
/// @pre connected to the neighbours; that much scratch memory is reserved.
std::vector<chunk_buffers> assign_buffers(call& c, pipeline_placement placement, int chunks,
                                          const pipeline_stage& work);

}  // namespace tandem::detail
