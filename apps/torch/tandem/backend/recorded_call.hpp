#pragma once

#include <ATen/ATen.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem::torch_backend {

/// A process group, and how many calls it has made.
struct observed_group {
  std::string name;
  std::string description;
  std::vector<std::int64_t> ranks;  ///< its members, as ranks of the default group
  int rank = 0;                     ///< this process, among them
  std::size_t id = 0;
  std::atomic<std::int64_t> collectives{0};
  std::atomic<std::int64_t> messages{0};
  std::atomic<std::int64_t> calls{0};
  std::atomic<std::int64_t> completed{-1};  ///< the last collective that is
  std::atomic<bool> is_replaced{false};     ///< by a new group of the same name
  bool is_batch = false;                    ///< between startCoalescing and endCoalescing
  bool batch_has_collectives = false;
  bool batch_has_messages = false;

  void begin_batch() {
    is_batch = true;
    batch_has_collectives = batch_has_messages = false;
  }
  std::int64_t stride() const {
    if (ranks.size() < 2) return 1;
    const std::int64_t step = ranks[1] - ranks[0];
    for (std::size_t i = 2; i < ranks.size(); ++i) {
      if (ranks[i] - ranks[i - 1] != step) return -1;
    }
    return step;
  }
};

/// The sizes and types of the tensors on one side of a call.
struct call_shape {
  c10::SmallVector<std::int64_t, 4> sizes;  ///< of all tensors, one after another
  c10::SmallVector<std::size_t, 2> dimensions;
  c10::SmallVector<at::ScalarType, 2> types;

  void add(c10::IntArrayRef of, at::ScalarType type) {
    sizes.append(of.begin(), of.end());
    dimensions.push_back(of.size());
    types.push_back(type);
  }
};

/// A call as a dump shows it.
struct recorded_call {
  std::shared_ptr<observed_group> group;
  const char* name = "";   ///< as ProcessGroupNCCL's, but for "nccl:"
  std::int64_t peer = -1;  ///< of a message
  bool is_message = false;
  bool is_send = false;
  call_shape inputs;
  call_shape outputs;
  std::int64_t collective_seq = 0;
  std::int64_t message_seq = 0;
  std::int64_t call_seq = 0;
  std::int64_t timeout_ms = 0;
};

}  // namespace tandem::torch_backend
