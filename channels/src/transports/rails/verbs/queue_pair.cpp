#include "transports/rails/verbs/queue_pair.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <tandem/detail/trust.hpp>

namespace tandem::verbs {
namespace {

// Values of NCCL, except for the timeout: 2^17 * 4 us, seven times, is 4 s where NCCL waits 30 s.
// The lane's heartbeats detect a failure sooner.
constexpr std::uint8_t ack_timeout = 17;
constexpr std::uint8_t retries = 6;  // 7 means unlimited to soft-RoCE of Linux 6.1
constexpr std::uint8_t rnr_retries = 7;
constexpr std::uint8_t min_rnr_timer_code = 12;
constexpr std::uint8_t hops = 255;

std::uint32_t random_number() {
  std::array<std::byte, 4> bytes;
  trust::random_bytes(bytes);
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value & 0xffffff;
}

}  // namespace

queue_pair::queue_pair(const adapter& on, ibv_cq* completions, const depths& has, unsigned access)
    : on_(&on), psn_(random_number()) {
  create(completions, has);
  to_init(access);
}

/// Some devices reject inline data, so creation is repeated without it.
void queue_pair::create(ibv_cq* completions, const depths& has) {
  ibv_qp_init_attr as{};
  as.send_cq = as.recv_cq = completions;
  as.qp_type = IBV_QPT_RC;
  as.cap = {has.sends, has.receives, 1, 1, has.inline_bytes};
  pair_ = {on_->driver(), on_->driver().create_qp(on_->domain(), &as)};
  if (!pair_ && has.inline_bytes > 0) return create(completions, {has.sends, has.receives, 0});
  if (!pair_) throw call_failed("ibv_create_qp", errno, on_->text());
  inline_bytes_ = std::min(as.cap.max_inline_data, has.inline_bytes);
}

void queue_pair::modify(ibv_qp_attr& to, int mask, const char* call) {
  if (const int failure = on_->driver().modify_qp(pair_.get(), &to, mask); failure != 0) {
    throw call_failed(call, failure, on_->text());
  }
}

void queue_pair::to_init(unsigned access) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.port_num = on_->at().port;
  to.qp_access_flags = access;
  modify(to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
         "ibv_modify_qp to INIT");
}

void queue_pair::connect(const address& remote, const qp_info& end, ibv_mtu path_mtu) {
  to_ready_to_receive(remote, end, path_mtu);
  to_ready_to_send();
}

void queue_pair::to_ready_to_receive(const address& remote, const qp_info& end, ibv_mtu path_mtu) {
  const bool is_ethernet = on_->port().link_layer == IBV_LINK_LAYER_ETHERNET;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = path_mtu;
  to.dest_qp_num = remote.number;
  to.rq_psn = remote.psn;
  to.max_dest_rd_atomic = 1;
  to.min_rnr_timer = min_rnr_timer_code;
  to.ah_attr.port_num = on_->at().port;
  to.ah_attr.dlid = end.lid;
  to.ah_attr.is_global = is_ethernet || end.lid == 0 ? 1 : 0;
  if (to.ah_attr.is_global != 0) {
    std::memcpy(to.ah_attr.grh.dgid.raw, end.gid.data(), end.gid.size());
    to.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(on_->at().gid_index);
    to.ah_attr.grh.hop_limit = hops;
  }
  modify(to,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         "ibv_modify_qp to RTR");
}

void queue_pair::to_ready_to_send() {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTS;
  to.sq_psn = psn_;
  to.timeout = ack_timeout;
  to.retry_cnt = retries;
  to.rnr_retry = rnr_retries;
  to.max_rd_atomic = 1;
  modify(to,
         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "ibv_modify_qp to RTS");
}

void queue_pair::stop() noexcept {
  if (!pair_) return;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_ERR;
  on_->driver().modify_qp(pair_.get(), &to, IBV_QP_STATE);
}

}  // namespace tandem::verbs
