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
  auto made = make(OpType::SEND, "send", data, data);
  const Tensor used = dense(t);
  made->keep(used);
  start(*made, c10d::kUnsetTimeout, tandem_send, buffer_of(used), to, tag);
  return give(made);
}

inline work_ptr backend::recv(tensors& data, int from, int tag) {
  const Tensor& t = only_one("recv", data);
  check_tag(tag);
  auto made = make(OpType::RECV, "recv", data, data);
  const Tensor used = dense(t);
  made->keep(used);
  if (!is_writable_in_place(t)) made->after([t, used] { t.copy_(used); });
  start(*made, c10d::kUnsetTimeout, tandem_recv, buffer_of(used), from, tag);
  return give(made);
}

inline work_ptr backend::recvAnysource(tensors& data, int tag) {
  const Tensor& t = only_one("recv", data);
  check_tag(tag);
  auto made = make(OpType::RECVANYSOURCE, "recvAnySource", data, data);
  const Tensor used = dense(t);
  made->keep(used);
  if (!is_writable_in_place(t)) made->after([t, used] { t.copy_(used); });
  start(*made, c10d::kUnsetTimeout, tandem_recv, buffer_of(used), std::int32_t{TANDEM_ANY_SOURCE},
        tag);
  return give(made);
}

inline work_ptr backend::barrier(const c10d::BarrierOptions& opts) {
  auto made = make(OpType::BARRIER, "barrier", {}, {});
  start(*made, opts.timeout, tandem_barrier);
  return give(made);
}

inline void backend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_for_all) {
  monitored_barrier call(comm(), first_barrier_tag + static_cast<int>(barriers_++ % barrier_tags));
  const milliseconds timeout = opts.timeout == c10d::kUnsetTimeout ? timeout_ : opts.timeout;
  getRank() == 0 ? call.as_rank_0(timeout, wait_for_all) : call.as_other(timeout);
}

}  // namespace tandem::torch_backend
