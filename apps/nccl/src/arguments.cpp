#include "arguments.hpp"

#include <fmt/format.h>

#include <cstring>
#include <tandem/accelerator.hpp>

namespace tandem::nccl_abi {
namespace {

/// An element that a program keeps on the device, when the work on the stream is done.
std::array<std::byte, 8> read_factor(const comm_rank& of, const made_sum& sum, stream on) {
  std::array<std::byte, 8> element = sum.factor;
  if (sum.on_device == nullptr) return element;
  accelerator& device = of.on();
  const pinned_buffer host(device, element.size());
  device.copy(host.data(), sum.on_device, bytes_of(sum.of), on);
  device.finish(on);
  std::memcpy(element.data(), host.data(), bytes_of(sum.of));
  return element;
}

}  // namespace

std::shared_ptr<comm_rank> checked(comm of, const char* call) {
  if (std::shared_ptr<comm_rank> found = comm_table::of_process().find(of)) return found;
  throw failure(invalid_argument,
                of == nullptr
                    ? fmt::format("{}: the communicator is NULL", call)
                    : fmt::format("{}: this is no communicator, or one that was destroyed", call));
}

int checked_rank(const comm_rank& in, int rank, const char* call, const char* what) {
  if (rank >= 0 && rank < in.size()) return rank;
  throw failure(invalid_argument, fmt::format("{}: {} {} of a communicator of {} ranks", call, what,
                                              rank, in.size()));
}

tandem_buffer buffer_at(const comm_rank& of, const void* data, std::size_t count, int type) {
  const std::size_t bytes = count * bytes_of(type);
  if (data == nullptr && bytes != 0) refuse(invalid_argument, "a buffer is NULL");
  return {const_cast<void*>(data), bytes, static_cast<std::int32_t>(of.kind()), of.device()};
}

posted_reduction reduction_at_call(const comm_rank& of, int type, int op) {
  bytes_of(type);  // refuses what is no type
  if (op >= 0 && op < built_in_ops) return {type, op};
  const std::shared_ptr<const made_sum> sum = of.find_sum(op);
  if (sum->of == type) return {type, op, sum};
  throw failure(invalid_argument,
                fmt::format("the premultiplied sum was made for data type {}, not {}",
                            static_cast<int>(sum->of), type));
}

tandem_reduce_op op_of(int op, bool is_made_sum) {
  constexpr std::array<tandem_reduce_op, built_in_ops> ops{
      TANDEM_SUM, TANDEM_PRODUCT, TANDEM_MAXIMUM, TANDEM_MINIMUM, TANDEM_AVERAGE};
  return is_made_sum ? TANDEM_PREMULTIPLIED_SUM : ops[static_cast<std::size_t>(op)];
}

tandem_reduction reduction_of(const comm_rank& of, const posted_reduction& what, stream on) {
  const tandem_type as = tandem_type_of(what.type);
  const tandem_reduce_op op = op_of(what.op, what.made != nullptr);
  if (!what.made) return {as, op, 1};
  const std::array<std::byte, 8> factor = read_factor(of, *what.made, on);
  return {as, op, value_of(what.made->of, factor.data())};
}

void require_no_capture(const comm_rank& of, stream on, const char* call) {
  if (of.kind() == memory_kind::host || !of.on().is_capturing(on)) return;
  refuse(invalid_usage,
         fmt::format("{}: the stream is being captured into a graph, which a communicator across "
                     "islands cannot be part of: channels need the processor for each call",
                     call));
}

}  // namespace tandem::nccl_abi
