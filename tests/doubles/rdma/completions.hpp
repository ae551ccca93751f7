#pragma once

#include "doubles/rdma/events.hpp"

namespace tandem::test::rdma {

/// The completion queues of all devices. One that overruns breaks its queue pairs.
class completion_queues {
 public:
  completion_queues(const pool<qp>& pairs, async_events& events, rdma_double::traffic& seen)
      : pairs_(pairs), events_(events), seen_(seen) {}

  cq& add() { return all_.add(std::make_unique<cq>()); }
  void remove(const ibv_cq* which) { all_.remove(which); }
  cq* find(const ibv_cq* which) const { return all_.find(which); }

  bool any_in(const ibv_context& of) const;
  std::size_t size() const noexcept { return all_.size(); }
  /// Events of both kinds that were fetched and not acknowledged.
  std::size_t unacked_events() const;

  void complete_send(qp& of, const send_request& request, ibv_wc_status status);
  void complete_receive(qp& of, const receive_request& request, ibv_wc_status status, ibv_wc with,
                        bool solicited);
  int poll(cq& from, int most, ibv_wc* into);
  /// Removes those of this queue pair.
  void forget(const qp& of);

 private:
  void complete(cq& on, const completion& what);
  void free_slots(const completion& of);

  pool<cq> all_;
  const pool<qp>& pairs_;
  async_events& events_;
  rdma_double::traffic& seen_;
};

}  // namespace tandem::test::rdma
