#include "doubles/rdma/responder.hpp"

#include <cstring>

namespace tandem::test::rdma {
namespace {

std::size_t total(const spans& of) {
  std::size_t bytes = 0;
  for (const auto& part : of) bytes += part.size();
  return bytes;
}

void copy(spans from, spans into) {
  for (auto to = into.begin(), part = from.begin(); to != into.end() && part != from.end();) {
    const std::size_t bytes = std::min(to->size(), part->size());
    std::memmove(to->data(), part->data(), bytes);
    *to = to->subspan(bytes);
    *part = part->subspan(bytes);
    if (to->empty()) ++to;
    if (part->empty()) ++part;
  }
}

bool is_write(ibv_wr_opcode what) {
  return what == IBV_WR_RDMA_WRITE || what == IBV_WR_RDMA_WRITE_WITH_IMM;
}

bool takes_a_receive(ibv_wr_opcode what) {
  return what != IBV_WR_RDMA_WRITE && what != IBV_WR_RDMA_READ;
}

void decide(send_request& request, ibv_wc_status outcome, bool local = false) {
  request.outcome = outcome;
  request.decided = true;
  request.local = local;
}

/// The packets of one end exceed the other's MTU, if the message fills any.
bool differ_in_mtu(const qp& a, const qp& b, std::size_t bytes) {
  const ibv_mtu least = std::min(a.attr.path_mtu, b.attr.path_mtu);
  return a.attr.path_mtu != b.attr.path_mtu && bytes > (std::size_t{128} << least);
}

}  // namespace

progress responder::execute(const qp& from, send_request& request, qp& at) {
  spans data;
  if (request.is_inline) {
    data.emplace_back(request.inlined);
  } else if (!memory_.resolve(from, request.parts, request.opcode == IBV_WR_RDMA_READ, data)) {
    decide(request, IBV_WC_LOC_PROT_ERR, true);
    return progress::made;
  } else if (total(data) > from.from().spec.max_msg) {
    decide(request, IBV_WC_LOC_LEN_ERR, true);
    return progress::made;
  }
  const std::size_t bytes = total(data);
  if (at.now == IBV_QPS_RTR && !at.established) events_.post(at, IBV_EVENT_COMM_EST);
  at.established = true;
  if (differ_in_mtu(from, at, bytes)) {
    reject(request, IBV_WC_REM_INV_REQ_ERR, at, IBV_EVENT_QP_REQ_ERR);
    return progress::made;
  }
  if (request.opcode == IBV_WR_RDMA_READ) return read(from, request, at, data);
  spans into;
  if (is_write(request.opcode) && !memory_.resolve_remote(at, request.rkey, request.remote_addr,
                                                          bytes, IBV_ACCESS_REMOTE_WRITE, into)) {
    reject(request, IBV_WC_REM_ACCESS_ERR, at, IBV_EVENT_QP_ACCESS_ERR);
    return progress::made;
  }
  if (takes_a_receive(request.opcode) && at.receives.empty()) return wait(from, request);
  if (is_write(request.opcode)) {
    copy(data, into);
    ++seen_.writes;
  } else if (!send(request, at, data)) {
    return progress::made;
  }
  seen_.bytes += bytes;
  if (takes_a_receive(request.opcode)) finish_receive(from, request, at, bytes);
  decide(request, IBV_WC_SUCCESS);
  return progress::made;
}

progress responder::wait(const qp& from, send_request& request) {
  if (!request.found_no_receive) ++seen_.rnr;
  request.found_no_receive = true;
  if (from.attr.rnr_retry == 7) return progress::none;
  decide(request, IBV_WC_RNR_RETRY_EXC_ERR);
  return progress::made;
}

/// False: the receive rejected it.
bool responder::send(send_request& request, qp& at, const spans& data) {
  const receive_request& receive = at.receives.front();
  spans into;
  ibv_wc_status receive_status = IBV_WC_SUCCESS;
  if (!memory_.resolve(at, receive.parts, true, into)) {
    receive_status = IBV_WC_LOC_PROT_ERR;
    decide(request, IBV_WC_REM_OP_ERR);
  } else if (total(into) < total(data)) {
    receive_status = IBV_WC_LOC_LEN_ERR;
    decide(request, IBV_WC_REM_INV_REQ_ERR);
  }
  if (receive_status != IBV_WC_SUCCESS) {
    completions_.complete_receive(at, receive, receive_status, {}, false);
    at.receives.pop_front();
    at.to_error();
    return false;
  }
  copy(data, into);
  ++seen_.sends;
  return true;
}

void responder::finish_receive(const qp& from, const send_request& request, qp& at,
                               std::size_t bytes) {
  ibv_wc wc{};
  wc.opcode = is_write(request.opcode) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  wc.byte_len = static_cast<std::uint32_t>(bytes);
  wc.src_qp = from.qp_num;
  if (request.opcode != IBV_WR_SEND) {
    wc.wc_flags = IBV_WC_WITH_IMM;
    wc.imm_data = request.imm;
  }
  completions_.complete_receive(at, at.receives.front(), IBV_WC_SUCCESS, wc, request.solicited);
  at.receives.pop_front();
}

progress responder::read(const qp& from, send_request& request, qp& at, const spans& into) {
  spans data;
  if (from.attr.max_rd_atomic == 0) {
    decide(request, IBV_WC_LOC_QP_OP_ERR, true);
  } else if (at.attr.max_dest_rd_atomic == 0) {
    reject(request, IBV_WC_REM_INV_REQ_ERR, at, IBV_EVENT_QP_REQ_ERR);
  } else if (!memory_.resolve_remote(at, request.rkey, request.remote_addr, total(into),
                                     IBV_ACCESS_REMOTE_READ, data)) {
    reject(request, IBV_WC_REM_ACCESS_ERR, at, IBV_EVENT_QP_ACCESS_ERR);
  } else {
    copy(data, into);
    ++seen_.reads;
    seen_.bytes += total(into);
    decide(request, IBV_WC_SUCCESS);
  }
  return progress::made;
}

void responder::reject(send_request& request, ibv_wc_status why, qp& at, ibv_event_type what) {
  decide(request, why);
  at.to_error();
  events_.post(at, what);
}

}  // namespace tandem::test::rdma
