#include "doubles/rdma/events.hpp"

#include <cerrno>

#include "doubles/rdma/world.hpp"

namespace tandem::test::rdma {
namespace {

context& of_pair(const qp& which) {
  return *static_cast<context*>(which.context);
}
context& of_queue(const cq& which) {
  return *static_cast<context*>(which.context);
}

bool is_of_queue(ibv_event_type type) {
  return type == IBV_EVENT_CQ_ERR;
}
bool is_of_pair(ibv_event_type type) {
  return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
         type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_COMM_EST;
}

int get_async_event(ibv_context* of, ibv_async_event* into) {
  world& in = world::current();
  context* found = nullptr;
  {
    const std::lock_guard lock(in.mutex);
    found = in.live(in.contexts, of, "get_async_event");
    if (found == nullptr) return errno = EINVAL, -1;
    if ((errno = in.faults.take_error(call::get_async_event)) != 0) return -1;
  }
  return found->events.fetch(in.mutex, *into, [&] {
    if (is_of_queue(into->event_type)) {
      ++static_cast<cq*>(into->element.cq)->async_fetched;
    } else if (is_of_pair(into->event_type)) {
      ++static_cast<qp*>(into->element.qp)->async_fetched;
    } else {
      ++found->unacked;
    }
  });
}

/// Events of a port name no context: acknowledges for the first one that has any.
void ack_async_event(ibv_async_event* which) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  if (is_of_queue(which->event_type)) {
    cq* const found = in.live(in.completions, which->element.cq, "ack_async_event");
    if (found == nullptr) return;
    if (++found->async_events_completed > found->async_fetched) in.fail("acknowledged twice");
    return;
  }
  if (is_of_pair(which->event_type)) {
    qp* const found = in.live(in.qps, which->element.qp, "ack_async_event");
    if (found == nullptr) return;
    if (++found->events_completed > found->async_fetched) in.fail("acknowledged twice");
    return;
  }
  for (const auto& one : in.contexts) {
    if (one->unacked > 0) return void(--one->unacked);
  }
  in.fail("acknowledged twice");
}

}  // namespace

void async_events::post(const device& of, ibv_event_type what) {
  ibv_async_event event{};
  event.element.port_num = what == IBV_EVENT_DEVICE_FATAL ? 0 : 1;
  event.event_type = what;
  for (const auto& one : contexts_) {
    if (&one->from() == &of) one->events.push(event);
  }
}

void async_events::post(qp& of, ibv_event_type what) {
  ibv_async_event event{};
  event.element.qp = &of;
  event.event_type = what;
  of_pair(of).events.push(event);
}

void async_events::post(cq& of, ibv_event_type what) {
  ibv_async_event event{};
  event.element.cq = &of;
  event.event_type = what;
  of_queue(of).events.push(event);
}

std::size_t async_events::waiting() const {
  std::size_t count = 0;
  for (const auto& one : contexts_) count += one->events.size();
  return count;
}

void fill_events(detail::ibverbs& table) {
  table.get_async_event = get_async_event;
  table.ack_async_event = ack_async_event;
}

}  // namespace tandem::test::rdma
