#pragma once

#include <tandem/collectives.hpp>
#include <tandem/library_queue.hpp>

#include "arguments.hpp"
#include "comm_rank.hpp"

namespace tandem::nccl_abi {

// Before the vendor's library gets a call, which is then compared with those of the other ranks. Of
// no bytes it is none: the library ignores it, and other ranks need not make it.

inline void note(const comm_rank& by, collective what, std::size_t bytes, int root = -1) {
  if (bytes != 0) by.queue().note(what, bytes, root);
}

inline void note(const comm_rank& by, collective what, std::size_t count,
                 const posted_reduction& how, int root = -1) {
  if (count == 0) return;
  const auto type = static_cast<data_type>(tandem_type_of(how.type));
  const auto op = static_cast<reduce_op>(op_of(how));
  by.queue().note(what, count * bytes_of(how.type), type, op, root);
}

inline void note_message(const comm_rank& by, int peer, std::size_t bytes, bool is_send) {
  if (bytes == 0) return;
  if (is_send) {
    by.queue().note_send(peer, bytes);
  } else {
    by.queue().note_receive(peer, bytes);
  }
}

}  // namespace tandem::nccl_abi
