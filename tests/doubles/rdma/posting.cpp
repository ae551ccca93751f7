#include <cerrno>
#include <cstring>

#include "doubles/rdma/world.hpp"

namespace tandem::test::rdma {
namespace {

std::size_t total(const ibv_sge* parts, int count) {
  std::size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += parts[i].length;
  return bytes;
}

bool is_known(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE ||
         opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_RDMA_READ;
}

/// 0 or errno.
int may_send(world& in, const qp& by, const ibv_send_wr& wr) {
  if (const int error = in.faults.take_error(call::post_send)) return error;
  if (by.now != IBV_QPS_RTS && by.now != IBV_QPS_ERR) return EINVAL;
  if (!is_known(wr.opcode)) return EOPNOTSUPP;
  const ibv_qp_cap& cap = by.made_as.cap;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > cap.max_send_sge) return EINVAL;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0 &&
      (wr.opcode == IBV_WR_RDMA_READ || total(wr.sg_list, wr.num_sge) > cap.max_inline_data)) {
    return EINVAL;
  }
  return by.posted - by.freed >= cap.max_send_wr ? ENOMEM : 0;
}

/// An injected fault for the next request of this device.
void inject_fault(world& in, const qp& by, send_request& request) {
  const auto status = in.faults.take_status(by.from().spec.name);
  if (!status) return;
  request.outcome = *status;
  request.decided = request.local = true;
}

send_request taken(const ibv_send_wr& wr, qp& by) {
  send_request made;
  made.wr_id = wr.wr_id;
  made.opcode = wr.opcode;
  made.parts.assign(wr.sg_list, wr.sg_list + wr.num_sge);
  made.is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  made.signalled = (wr.send_flags & IBV_SEND_SIGNALED) != 0 || by.made_as.sq_sig_all;
  made.solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
  made.imm = wr.imm_data;
  made.remote_addr = wr.wr.rdma.remote_addr;
  made.rkey = wr.wr.rdma.rkey;
  made.number = by.posted++;
  if (made.is_inline) {
    for (const ibv_sge& part : made.parts) {
      const auto* const from = reinterpret_cast<const std::byte*>(part.addr);
      made.inlined.insert(made.inlined.end(), from, from + part.length);
    }
  }
  return made;
}

int post_send(ibv_qp* by, ibv_send_wr* wr, ibv_send_wr** bad) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  qp* const found = in.live(in.qps, by, "post_send");
  int error = found == nullptr ? EINVAL : 0;
  for (; wr != nullptr && error == 0; wr = wr->next) {
    if ((error = may_send(in, *found, *wr)) != 0) break;
    inject_fault(in, *found, found->sends.emplace_back(taken(*wr, *found)));
  }
  if (error != 0) *bad = wr;
  in.make_progress();
  return error;
}

int may_receive(world& in, const qp& by, const ibv_recv_wr& wr) {
  if (const int error = in.faults.take_error(call::post_recv)) return error;
  if (by.now == IBV_QPS_RESET) return EINVAL;
  const ibv_qp_cap& cap = by.made_as.cap;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > cap.max_recv_sge) return EINVAL;
  return by.receive_slots >= cap.max_recv_wr ? ENOMEM : 0;
}

int post_recv(ibv_qp* by, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  qp* const found = in.live(in.qps, by, "post_recv");
  int error = found == nullptr ? EINVAL : 0;
  for (; wr != nullptr && error == 0; wr = wr->next) {
    if ((error = may_receive(in, *found, *wr)) != 0) break;
    found->receives.push_back({wr->wr_id, {wr->sg_list, wr->sg_list + wr->num_sge}});
    ++found->receive_slots;
  }
  if (error != 0) *bad = wr;
  in.make_progress();
  return error;
}

}  // namespace

void fill_posting(ibv_context_ops& ops) {
  ops.post_send = post_send;
  ops.post_recv = post_recv;
}

}  // namespace tandem::test::rdma
