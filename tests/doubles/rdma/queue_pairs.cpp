#include <array>
#include <cerrno>
#include <cstring>

#include "doubles/rdma/world.hpp"

namespace tandem::test::rdma {
namespace {

ibv_qp* create_qp(ibv_pd* where, ibv_qp_init_attr* as) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  if (in.live(in.pds, where, "create_qp") == nullptr) return errno = EINVAL, nullptr;
  if ((errno = in.faults.take_error(call::create_qp)) != 0) return nullptr;
  device& of = static_cast<context*>(where->context)->from();
  if (static_cast<context*>(where->context)->lost) return errno = EIO, nullptr;
  if (as->qp_type != IBV_QPT_RC || as->srq != nullptr) return errno = EOPNOTSUPP, nullptr;
  for (const ibv_cq* const queue : {as->send_cq, as->recv_cq}) {
    if (queue == nullptr || in.live(in.completions, queue, "create_qp") == nullptr ||
        queue->context != where->context) {
      return errno = EINVAL, nullptr;
    }
  }
  const auto wr = static_cast<std::uint32_t>(of.spec.max_qp_wr);
  const auto sge = static_cast<std::uint32_t>(of.spec.max_sge);
  const ibv_qp_cap& cap = as->cap;
  if (cap.max_send_wr > wr || cap.max_recv_wr > wr || cap.max_send_sge > sge ||
      cap.max_recv_sge > sge || cap.max_inline_data > of.spec.max_inline) {
    return errno = EINVAL, nullptr;
  }
  qp& made = in.qps.add(std::make_unique<qp>());
  made.context = where->context;
  made.qp_context = as->qp_context;
  made.pd = where;
  made.send_cq = as->send_cq;
  made.recv_cq = as->recv_cq;
  made.qp_num = of.next_qpn++;
  made.qp_type = as->qp_type;
  made.serial = in.next_serial++;
  made.made_as = *as;
  return &made;
}

constexpr int address = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

struct transition {
  ibv_qp_state from, to;
  int required, optional;
};
constexpr std::array transitions{
    transition{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
               0},
    transition{IBV_QPS_INIT, IBV_QPS_INIT, 0,
               IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    transition{IBV_QPS_INIT, IBV_QPS_RTR,
               address | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
               IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    transition{IBV_QPS_RTR, IBV_QPS_RTS,
               IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                   IBV_QP_MAX_QP_RD_ATOMIC,
               IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
                   IBV_QP_PATH_MIG_STATE},
    transition{IBV_QPS_RTS, IBV_QPS_RTS, 0,
               IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
};

bool is_allowed(ibv_qp_state from, ibv_qp_state to, int mask) {
  mask &= ~IBV_QP_STATE;
  if (to == IBV_QPS_ERR) return (mask & ~IBV_QP_CUR_STATE) == 0;
  if (to == IBV_QPS_RESET) return mask == 0;
  for (const transition& one : transitions) {
    if (one.from != from || one.to != to) continue;
    return (mask & one.required) == one.required && (mask & ~(one.required | one.optional)) == 0;
  }
  return false;
}

const rdma_double::gid* gid_at(const device& of, std::uint32_t index) {
  for (const rdma_double::gid& one : of.spec.gids) {
    if (one.index == index) return &one;
  }
  return nullptr;
}

/// RoCE requires a GID, InfiniBand only for an address in another subnet.
bool is_address(const device& of, const ibv_ah_attr& to) {
  if (to.port_num != 1) return false;
  if (!of.spec.infiniband && !to.is_global) return false;
  if (of.spec.infiniband && to.dlid == 0) return false;
  return !to.is_global || gid_at(of, to.grh.sgid_index) != nullptr;
}

bool is_sound(const device& of, const ibv_qp_attr& to, int mask) {
  const auto has = [&](int what) { return (mask & what) != 0; };
  return !(has(IBV_QP_PORT) && to.port_num != 1) &&
         !(has(IBV_QP_PKEY_INDEX) && to.pkey_index != 0) &&
         !(has(IBV_QP_AV) && !is_address(of, to.ah_attr)) &&
         !(has(IBV_QP_PATH_MTU) && (to.path_mtu < IBV_MTU_256 || to.path_mtu > of.spec.mtu)) &&
         !(has(IBV_QP_TIMEOUT) && to.timeout > 31) &&
         !(has(IBV_QP_RETRY_CNT) && to.retry_cnt > 7) &&
         !(has(IBV_QP_RNR_RETRY) && to.rnr_retry > 7) &&
         !(has(IBV_QP_MIN_RNR_TIMER) && to.min_rnr_timer > 31) &&
         !(has(IBV_QP_MAX_QP_RD_ATOMIC) && to.max_rd_atomic > 128) &&
         !(has(IBV_QP_MAX_DEST_RD_ATOMIC) && to.max_dest_rd_atomic > 128) &&
         !(has(IBV_QP_RQ_PSN) && to.rq_psn >> 24 != 0) &&
         !(has(IBV_QP_SQ_PSN) && to.sq_psn >> 24 != 0) &&
         !(has(IBV_QP_DEST_QPN) && to.dest_qp_num >> 24 != 0);
}

void keep(qp& of, const ibv_qp_attr& to, int mask) {
  ibv_qp_attr& now = of.attr;
  const auto has = [&](int what) { return (mask & what) != 0; };
  if (has(IBV_QP_ACCESS_FLAGS)) now.qp_access_flags = to.qp_access_flags;
  if (has(IBV_QP_PKEY_INDEX)) now.pkey_index = to.pkey_index;
  if (has(IBV_QP_PORT)) now.port_num = to.port_num;
  if (has(IBV_QP_AV)) {
    now.ah_attr = to.ah_attr;
    if (to.ah_attr.is_global) of.source = *gid_at(of.from(), to.ah_attr.grh.sgid_index);
  }
  if (has(IBV_QP_PATH_MTU)) now.path_mtu = to.path_mtu;
  if (has(IBV_QP_DEST_QPN)) now.dest_qp_num = to.dest_qp_num;
  if (has(IBV_QP_RQ_PSN)) now.rq_psn = to.rq_psn;
  if (has(IBV_QP_SQ_PSN)) now.sq_psn = to.sq_psn;
  if (has(IBV_QP_TIMEOUT)) now.timeout = to.timeout;
  if (has(IBV_QP_RETRY_CNT)) now.retry_cnt = to.retry_cnt;
  if (has(IBV_QP_RNR_RETRY)) now.rnr_retry = to.rnr_retry;
  if (has(IBV_QP_MIN_RNR_TIMER)) now.min_rnr_timer = to.min_rnr_timer;
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) now.max_rd_atomic = to.max_rd_atomic;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) now.max_dest_rd_atomic = to.max_dest_rd_atomic;
}

/// Resets it: posted requests are dropped without completions.
void reset(world& in, qp& of) {
  in.completions.forget(of);
  of.sends.clear();
  of.receives.clear();
  of.posted = of.freed = of.receive_slots = 0;
  of.attr = {};
  of.established = false;
}

int modify_qp(ibv_qp* which, ibv_qp_attr* to, int mask) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  qp* const found = in.live(in.qps, which, "modify_qp");
  if (found == nullptr) return EINVAL;
  if (const int error = in.faults.take_error(call::modify_qp)) return error;
  if (static_cast<context*>(found->context)->lost) return EIO;
  const ibv_qp_state next = (mask & IBV_QP_STATE) != 0 ? to->qp_state : found->now;
  if ((mask & IBV_QP_CUR_STATE) != 0 && to->cur_qp_state != found->now) return EINVAL;
  if (!is_allowed(found->now, next, mask) || !is_sound(found->from(), *to, mask)) return EINVAL;
  keep(*found, *to, mask);
  found->now = found->state = next;
  if (next == IBV_QPS_RESET) reset(in, *found);
  in.make_progress();
  return 0;
}

int query_qp(ibv_qp* which, ibv_qp_attr* into, int, ibv_qp_init_attr* made_as) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  qp* const found = in.live(in.qps, which, "query_qp");
  if (found == nullptr) return EINVAL;
  if (const int error = in.faults.take_error(call::query_qp)) return error;
  *into = found->attr;
  into->qp_state = into->cur_qp_state = found->now;
  into->cap = found->made_as.cap;
  *made_as = found->made_as;
  return 0;
}

int destroy_qp(ibv_qp* which) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  qp* const found = in.live(in.qps, which, "destroy_qp");
  if (found == nullptr) return EINVAL;
  if (found->async_fetched != found->events_completed) {
    in.fail("destroy_qp would block for ever: events were fetched and not acknowledged");
  }
  if (!found->from().spec.keeps_completions) in.completions.forget(*found);
  static_cast<context*>(found->context)->events.forget([&](const ibv_async_event& event) {
    return event.element.qp == which;
  });
  in.qps.remove(which);
  in.make_progress();
  return 0;
}

}  // namespace

void fill_queue_pairs(detail::ibverbs& table) {
  table.create_qp = create_qp;
  table.modify_qp = modify_qp;
  table.query_qp = query_qp;
  table.destroy_qp = destroy_qp;
}

}  // namespace tandem::test::rdma
