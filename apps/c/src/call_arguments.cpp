#include "call_arguments.hpp"

#include <fmt/format.h>

#include <limits>
#include <tandem/error.hpp>

#include "call_batch.hpp"
#include "status.hpp"

namespace tandem::c {

mutable_view view_of(const tandem_buffer& from) {
  // A view of no bytes may have any address.
  static std::byte nothing;
  void* const data = from.data == nullptr && from.bytes == 0 ? &nothing : from.data;
  return {data, from.bytes, kind_of(from.kind), from.device};
}

data_type type_of(const tandem_reduction& how) {
  if (how.type < 0 || how.type > std::numeric_limits<std::uint8_t>::max()) {
    throw error(errc::bad_input, fmt::format("{} is no element type", how.type), "see tandem_type");
  }
  return static_cast<data_type>(how.type);
}

reduction reduction_of(const tandem_reduction& how) {
  if (how.op < 0 || how.op > std::numeric_limits<std::uint8_t>::max()) {
    throw error(errc::bad_input, fmt::format("{} is no reduction", how.op), "see tandem_reduce_op");
  }
  return {static_cast<reduce_op>(how.op), how.factor};
}

std::vector<std::size_t> lengths_of(const std::size_t* given, int ranks) {
  if (given == nullptr) return {};
  return {given, given + ranks};
}

const tandem_buffer* find_on_device(buffers used) {
  for (const tandem_buffer& each : used) {
    if (each.kind != TANDEM_HOST) return &each;
  }
  return nullptr;
}

int checked_tag(const char* name, std::int32_t tag) {
  if (tag >= 0 && tag <= TANDEM_MAX_TAG) return tag;
  throw error(errc::bad_input, fmt::format("{}: tag {}", name, tag),
              fmt::format("tags are 0 to {}", TANDEM_MAX_TAG));
}

int in_stream_of(const tandem_call* call) {
  const bool has_member =
      call->struct_bytes >= offsetof(tandem_call, in_stream) + sizeof call->in_stream;
  return has_member ? call->in_stream : 0;
}

call_batch* batch_of(const tandem_call* call) {
  const bool has_member =
      call != nullptr && call->struct_bytes >= offsetof(tandem_call, batch) + sizeof call->batch;
  return has_member && call->batch != nullptr ? &call->batch->operations : nullptr;
}

}  // namespace tandem::c
