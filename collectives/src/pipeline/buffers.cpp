#include "pipeline/buffers.hpp"

#include <fmt/format.h>

namespace tandem::detail {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t rings_per_chunk = 4;

std::size_t padded(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

enum path : std::uint32_t { activations = 0, gradients = 1 };

/// Hands out the scratch memory and transfers of a call.
class assignment {
 public:
  assignment(call& c, std::size_t chunks)
      : call_(c),
        transfers_(c.reserve_transfers(chunks * rings_per_chunk * buffers_each_end).data()) {}

  /// The ring of a flow to or from another rank. `stage` is the lower of the two it connects.
  message_ring remote(int peer, int stage, path what, std::size_t bytes) {
    message_ring ring = memory_of(bytes, buffers_each_end);
    ring.path = call_.in->to(peer);
    ring.flow =
        call_.in->flow(group::flow_class::pipeline, 2 * static_cast<std::uint32_t>(stage) + what);
    ring.transfers = transfers_;
    transfers_ += buffers_each_end;
    return ring;
  }
  message_ring local(std::size_t bytes) { return memory_of(bytes, pipeline_buffers); }

 private:
  message_ring memory_of(std::size_t bytes, int buffers) {
    message_ring ring;
    ring.bytes = bytes;
    ring.stride = padded(bytes);
    ring.buffers = buffers;
    const std::size_t total = static_cast<std::size_t>(buffers) * ring.stride;
    ring.memory = call_.scratch(used_, total);
    used_ += total;
    return ring;
  }

  call& call_;
  transfer* transfers_;
  std::size_t used_ = 0;
};

}  // namespace

std::size_t buffer_bytes(const group& g, const pipeline_schedule& all, const pipeline_stage& work) {
  std::size_t total = 0;
  for (int chunk = 0; chunk < all.chunks; ++chunk) {
    const int stage = stage_of(all.placement, {g.rank(), chunk}, g.size());
    if (stage > 0) {
      const chunk_location before = location_of(all.placement, stage - 1, g.size());
      const std::size_t bytes = work.input_bytes(chunk);
      total += pipeline_buffers * padded(bytes);
      if (before.rank == g.rank() && work.output_bytes(before.chunk) != bytes) {
        throw error(errc::bad_input,
                    fmt::format("run_pipeline: {} bytes from chunk {}, {} into chunk {}",
                                work.output_bytes(before.chunk), before.chunk, bytes, chunk));
      }
    }
    if (stage + 1 < all.stages()) {
      total += pipeline_buffers * padded(work.output_bytes(chunk));
    }
  }
  return total;
}

std::vector<chunk_buffers> assign_buffers(call& c, pipeline_placement placement, int chunks,
                                          const pipeline_stage& work) {
  const group& g = *c.in;
  assignment next(c, static_cast<std::size_t>(chunks));
  std::vector<chunk_buffers> all(static_cast<std::size_t>(chunks));
  for (int chunk = 0; chunk < chunks; ++chunk) {
    chunk_buffers& own = all[static_cast<std::size_t>(chunk)];
    const int stage = stage_of(placement, {g.rank(), chunk}, g.size());
    if (stage > 0) {
      const chunk_location before = location_of(placement, stage - 1, g.size());
      const std::size_t bytes = work.input_bytes(chunk);
      if (before.rank == g.rank()) {
        chunk_buffers& earlier = all[static_cast<std::size_t>(before.chunk)];
        own.activations_in = earlier.activations_out = next.local(bytes);
        own.gradients_out = earlier.gradients_in = next.local(bytes);
      } else {
        own.activations_in = next.remote(before.rank, stage - 1, activations, bytes);
        own.gradients_out = next.remote(before.rank, stage - 1, gradients, bytes);
      }
    }
    if (stage + 1 == chunks * g.size()) continue;
    const int after = location_of(placement, stage + 1, g.size()).rank;
    if (after == g.rank()) continue;  // made with the chunk that follows
    const std::size_t bytes = work.output_bytes(chunk);
    own.activations_out = next.remote(after, stage, activations, bytes);
    own.gradients_in = next.remote(after, stage, gradients, bytes);
  }
  return all;
}

}  // namespace tandem::detail
