#pragma once

#include <atomic>
#include <tandem/detail/nccl.hpp>
#include <tandem/detail/polled_mutex.hpp>
#include <tandem/library_queue.hpp>

#include "abi.hpp"

namespace tandem::nccl_abi {

class comm_rank;

/// What a program holds as ncclComm_t, and what a call of the vendor's library needs: in one place,
/// as such a call takes some 6 us, and all that is done beside it is to be a small part of that.
/// Never freed: a thread may look at one that it has used before without looking it up.
struct alignas(64) comm_handle {
  /// The vendor's library carries all calls: the ranks have joined, are one island, and none has
  /// failed, aborted, finished or destroyed the communicator.
  std::atomic<bool> is_open{false};
  // Constant while it is open.
  int size = 0;
  const detail::nccl* library = nullptr;
  detail::nc::comm native = nullptr;
  library_queue* queue = nullptr;
  comm_rank* by = nullptr;
  /// Held during calls of the library: its communicator is neither aborted nor freed meanwhile.
  detail::polled_mutex mutex;
};

}  // namespace tandem::nccl_abi
