#include "doubles/rdma/completions.hpp"

#include <cerrno>
#include <cstring>

#include "doubles/rdma/world.hpp"

namespace tandem::test::rdma {
namespace {

ibv_comp_channel* create_comp_channel(ibv_context* of) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  context* const found = in.live(in.contexts, of, "create_comp_channel");
  if (found == nullptr) return errno = EINVAL, nullptr;
  if ((errno = in.faults.take_error(call::create_comp_channel)) != 0) return nullptr;
  if (found->lost) return errno = EIO, nullptr;
  comp_channel& made = in.channels.add(std::make_unique<comp_channel>());
  made.context = of;
  made.fd = made.events.fd();
  return &made;
}

int destroy_comp_channel(ibv_comp_channel* which) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  if (in.live(in.channels, which, "destroy_comp_channel") == nullptr) return EINVAL;
  if (which->refcnt > 0) return EBUSY;
  in.channels.remove(which);
  return 0;
}

ibv_cq* create_cq(ibv_context* of, int entries, void* with, ibv_comp_channel* tells, int vector) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  context* const found = in.live(in.contexts, of, "create_cq");
  if (found == nullptr) return errno = EINVAL, nullptr;
  if ((errno = in.faults.take_error(call::create_cq)) != 0) return nullptr;
  if (found->lost) return errno = EIO, nullptr;
  if (entries < 1 || entries > found->from().spec.max_cqe) return errno = EINVAL, nullptr;
  if (vector < 0 || vector >= of->num_comp_vectors) return errno = EINVAL, nullptr;
  if (tells != nullptr) {
    if (in.live(in.channels, tells, "create_cq") == nullptr || tells->context != of) {
      return errno = EINVAL, nullptr;
    }
    ++tells->refcnt;
  }
  cq& made = in.completions.add();
  made.context = of;
  made.channel = tells;
  made.cq_context = with;
  made.cqe = entries;
  return &made;
}

int destroy_cq(ibv_cq* which) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  cq* const found = in.live(in.completions, which, "destroy_cq");
  if (found == nullptr) return EINVAL;
  if (in.qps.any([&](const qp& q) { return q.send_cq == which || q.recv_cq == which; })) {
    return EBUSY;
  }
  if (found->events_fetched != found->comp_events_completed ||
      found->async_fetched != found->async_events_completed) {
    in.fail("destroy_cq would block for ever: events were fetched and not acknowledged");
  }
  if (found->channel != nullptr) {
    static_cast<comp_channel*>(found->channel)->events.forget([&](ibv_cq* q) {
      return q == which;
    });
    --found->channel->refcnt;
  }
  static_cast<context*>(found->context)->events.forget([&](const ibv_async_event& event) {
    return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == which;
  });
  in.completions.remove(which);
  return 0;
}

int get_cq_event(ibv_comp_channel* of, ibv_cq** which, void** with) {
  world& in = world::current();
  comp_channel* found = nullptr;
  {
    const std::lock_guard lock(in.mutex);
    found = in.live(in.channels, of, "get_cq_event");
    if (found == nullptr) return errno = EINVAL, -1;
    if ((errno = in.faults.take_error(call::get_cq_event)) != 0) return -1;
  }
  return found->events.fetch(in.mutex, *which, [&] {
    ++static_cast<cq*>(*which)->events_fetched;
    *with = (*which)->cq_context;
  });
}

void ack_cq_events(ibv_cq* of, unsigned count) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  cq* const found = in.live(in.completions, of, "ack_cq_events");
  if (found == nullptr) return;
  found->comp_events_completed += count;
  if (found->comp_events_completed > found->events_fetched) {
    in.fail("ack_cq_events: more than were fetched of this queue");
  }
}

int req_notify_cq(ibv_cq* which, int solicited_only) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  cq* const found = in.live(in.completions, which, "req_notify_cq");
  if (found == nullptr) return EINVAL;
  if (const int error = in.faults.take_error(call::req_notify_cq)) return error;
  if (!solicited_only) {
    found->armed = arming::all;
  } else if (found->armed == arming::none) {
    found->armed = arming::solicited;
  }
  return 0;
}

int poll_cq(ibv_cq* which, int most, ibv_wc* into) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  cq* const found = in.live(in.completions, which, "poll_cq");
  if (found == nullptr) return -EINVAL;
  if (const int error = in.faults.take_error(call::poll_cq)) return -error;
  if (in.when == delivery::at_poll) in.run();
  return in.completions.poll(*found, most, into);
}

/// Fields that a completion does not define are random, so that code that reads them fails.
ibv_wc rubbish() {
  ibv_wc made;
  std::memset(&made, 0xdb, sizeof made);
  return made;
}

ibv_wc_opcode completed(ibv_wr_opcode posted) {
  switch (posted) {
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    default:
      return IBV_WC_SEND;
  }
}

/// A failed completion has the wrong opcode, as it is not defined.
ibv_wc failed(std::uint64_t wr_id, ibv_wc_status status, std::uint32_t qp_num, bool of_send) {
  ibv_wc made = rubbish();
  made.wr_id = wr_id;
  made.status = status;
  made.qp_num = qp_num;
  made.vendor_err = 0x100u + static_cast<std::uint32_t>(status);
  made.opcode = of_send ? IBV_WC_RECV : IBV_WC_SEND;
  return made;
}

}  // namespace

bool completion_queues::any_in(const ibv_context& of) const {
  return all_.any([&](const cq& one) { return one.context == &of; });
}

std::size_t completion_queues::unacked_events() const {
  std::size_t count = 0;
  for (const auto& one : all_) {
    count += one->events_fetched - one->comp_events_completed;
    count += one->async_fetched - one->async_events_completed;
  }
  return count;
}

void completion_queues::complete(cq& on, const completion& what) {
  if (on.broken) return;
  if (on.waiting.size() >= static_cast<std::size_t>(on.cqe)) {
    ++seen_.cq_overruns;
    on.broken = true;
    events_.post(on, IBV_EVENT_CQ_ERR);
    for (const auto& one : pairs_) {
      if ((one->send_cq != &on && one->recv_cq != &on) || one->now == IBV_QPS_ERR) continue;
      one->to_error();
      events_.post(*one, IBV_EVENT_QP_FATAL);
    }
    return;
  }
  on.waiting.push_back(what);
  if (on.signals(what.solicited || what.wc.status != IBV_WC_SUCCESS)) on.notify();
}

void completion_queues::complete_send(qp& of, const send_request& request, ibv_wc_status status) {
  const bool good = status == IBV_WC_SUCCESS;
  if (good && !request.signalled) return;
  ibv_wc wc = failed(request.wr_id, status, of.qp_num, true);
  if (good) {
    wc.opcode = completed(request.opcode);
    wc.wc_flags = 0;
    wc.vendor_err = 0;
  }
  complete(static_cast<cq&>(*of.send_cq), {wc, of.serial, true, false, request.number});
}

void completion_queues::complete_receive(qp& of, const receive_request& request,
                                         ibv_wc_status status, ibv_wc with, bool solicited) {
  ibv_wc wc = failed(request.wr_id, status, of.qp_num, false);
  if (status == IBV_WC_SUCCESS) {
    wc.opcode = with.opcode;
    wc.byte_len = with.byte_len;
    wc.wc_flags = with.wc_flags;
    wc.src_qp = with.src_qp;
    wc.vendor_err = 0;
    if ((with.wc_flags & IBV_WC_WITH_IMM) != 0) wc.imm_data = with.imm_data;
  }
  complete(static_cast<cq&>(*of.recv_cq), {wc, of.serial, false, solicited, 0});
}

int completion_queues::poll(cq& from, int most, ibv_wc* into) {
  int got = 0;
  while (got < most && !from.waiting.empty()) {
    const completion& next = from.waiting.front();
    std::memcpy(into + got++, &next.wc, sizeof next.wc);
    free_slots(next);
    from.waiting.pop_front();
  }
  return got;
}

/// Only polling frees the slots of requests; that of a send also frees all earlier ones.
void completion_queues::free_slots(const completion& of) {
  for (const auto& one : pairs_) {
    if (one->serial != of.qp_serial) continue;
    if (of.of_send) {
      one->freed = std::max(one->freed, of.number + 1);
    } else {
      --one->receive_slots;
    }
  }
}

void completion_queues::forget(const qp& of) {
  for (const auto& one : all_) {
    std::erase_if(one->waiting, [&](const completion& c) { return c.qp_serial == of.serial; });
  }
}

void fill_completions(detail::ibverbs& table) {
  table.create_comp_channel = create_comp_channel;
  table.destroy_comp_channel = destroy_comp_channel;
  table.create_cq = create_cq;
  table.destroy_cq = destroy_cq;
  table.get_cq_event = get_cq_event;
  table.ack_cq_events = ack_cq_events;
}

void fill_completions(ibv_context_ops& ops) {
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
}

}  // namespace tandem::test::rdma
