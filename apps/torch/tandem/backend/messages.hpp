#pragma once

#include "backend.hpp"
#include "monitored_barrier.hpp"

namespace tandem::torch_backend {

inline void check_tag(int tag) {
  TORCH_CHECK_VALUE(tag >= 0 && tag < first_barrier_tag, "tandem: tag ", tag, ": tags are 0 to ",
                    first_barrier_tag - 1);
}

inline work_ptr backend::send(tensors& data, int to, int tag) {
  const Tensor& t = only_one("send", data);
  check_tag(tag);
  auto made = make(OpType::SEND, "send", data, data, {.peer = to});
  const Tensor used = input_of(*made, t);
  start(*made, c10d::kUnsetTimeout, tandem_send, buffer_of(used), to, tag);
  return give(made);
}

inline work_ptr backend::receive(OpType what, const char* title, tensors& data, int from, int tag) {
  const Tensor& t = only_one("recv", data);
  check_tag(tag);
  auto made = make(what, title, data, data, {.peer = from});
  const Tensor used = in_place_of(*made, t);  // a message may be shorter
  start(*made, c10d::kUnsetTimeout, tandem_recv, buffer_of(used), from, tag);
  return give(made);
}

inline work_ptr backend::recv(tensors& data, int from, int tag) {
  return receive(OpType::RECV, "recv", data, from, tag);
}

inline work_ptr backend::recvAnysource(tensors& data, int tag) {
  return receive(OpType::RECVANYSOURCE, "recvAnySource", data, TANDEM_ANY_SOURCE, tag);
}

inline work_ptr backend::barrier(const c10d::BarrierOptions& opts) {
  auto made = make(OpType::BARRIER, "barrier", {}, {});
  if (gpu_) current_stream(*gpu_).synchronize();  // what it separates includes the work of GPUs
  start(*made, options_of(opts), tandem_barrier);
  return give(made);
}

inline void backend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_for_all) {
  monitored_barrier call(comm(), first_barrier_tag + static_cast<int>(barriers_++ % barrier_tags));
  const milliseconds timeout = opts.timeout == c10d::kUnsetTimeout ? timeout_ : opts.timeout;
  getRank() == 0 ? call.as_rank_0(timeout, wait_for_all) : call.as_other(timeout);
}

}  // namespace tandem::torch_backend
