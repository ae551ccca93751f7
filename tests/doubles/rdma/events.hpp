#pragma once

#include "doubles/rdma/objects.hpp"

namespace tandem::test::rdma {

/// Asynchronous events, which wait in the contexts concerned.
class async_events {
 public:
  explicit async_events(const pool<context>& contexts) : contexts_(contexts) {}

  /// To every context of the device.
  void post(const device& of, ibv_event_type what);
  void post(qp& of, ibv_event_type what);
  void post(cq& of, ibv_event_type what);
  /// Those that are not fetched.
  std::size_t waiting() const;

 private:
  const pool<context>& contexts_;
};

}  // namespace tandem::test::rdma
