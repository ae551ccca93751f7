#pragma once

#include "doubles/rdma/completions.hpp"
#include "doubles/rdma/memory.hpp"

namespace tandem::test::rdma {

/// Executes requests at the queue pair that receives them.
class responder {
 public:
  responder(const memory_regions& memory, completion_queues& completions, async_events& events,
            rdma_double::traffic& seen)
      : memory_(memory), completions_(completions), events_(events), seen_(seen) {}

  /// Decides the request, unless it has to wait for a receive.
  progress execute(const qp& from, send_request& request, qp& at);

 private:
  progress wait(const qp& from, send_request& request);
  bool send(send_request& request, qp& at, const spans& data);
  progress read(const qp& from, send_request& request, qp& at, const spans& into);
  void finish_receive(const qp& from, const send_request& request, qp& at, std::size_t bytes);
  void reject(send_request& request, ibv_wc_status why, qp& at, ibv_event_type what);

  const memory_regions& memory_;
  completion_queues& completions_;
  async_events& events_;
  rdma_double::traffic& seen_;
};

}  // namespace tandem::test::rdma
