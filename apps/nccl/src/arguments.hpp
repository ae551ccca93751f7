#pragma once

#include <tandem.h>

#include <cstddef>
#include <memory>

#include "abi.hpp"
#include "comm_rank.hpp"

namespace tandem::nccl_abi {

/// @par Errors thrown by all, unless they are noexcept: `failure`.

/// Which memory the calling thread's communicators are for.
struct own_memory {
  memory_kind kind = memory_kind::host;
  int device = 0;
};

/// The calling thread's current device: of CUDA, else of HIP (in librccl the other way round). With
/// TANDEM_NCCL_HOST=1, host memory. @par Errors thrown: `failure`: there is no device.
own_memory memory_of_thread();

/// Of ncclDataType_t.
constexpr bool is_type(int type) noexcept {
  return type >= 0 && type < type_count;
}
std::size_t bytes_of(int type);
tandem_type tandem_type_of(int type);
/// The value of an element.
double value_of(type of, const std::byte* element) noexcept;

/// A communicator that this library has made.
std::shared_ptr<comm_rank> checked(comm of, const char* call);
/// A rank of it.
int checked_rank(const comm_rank& in, int rank, const char* call, const char* what);
/// `count` elements at an address that the communicator's memory has; null for none.
tandem_buffer buffer_at(const comm_rank& of, const void* data, std::size_t count, int type);
/// The operation of a call. A program may destroy its premultiplied sum before the group ends.
struct posted_reduction {
  int type = 0;
  int op = 0;
  std::shared_ptr<const made_sum> made = {};
};
posted_reduction reduction_at_call(const comm_rank& of, int type, int op);
tandem_reduce_op op_of(int op, bool is_made_sum);

/// Of channels. Where the program has put the factor on the device, waits for `on` and reads it.
tandem_reduction reduction_of(const comm_rank& of, const posted_reduction& what, stream on);
/// Refuses a stream that is being captured into a graph: channels need the processor for each call.
void require_no_capture(const comm_rank& of, stream on, const char* call);

inline const std::byte* offset(const void* from, std::size_t bytes) noexcept {
  return static_cast<const std::byte*>(from) + bytes;
}
inline std::byte* offset(void* from, std::size_t bytes) noexcept {
  return static_cast<std::byte*>(from) + bytes;
}

}  // namespace tandem::nccl_abi
