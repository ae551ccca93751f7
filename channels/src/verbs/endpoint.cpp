#include "verbs/endpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <tandem/detail/trust.hpp>
#include <tandem/error.hpp>
#include <utility>

#include "verbs/capabilities.hpp"
#include "verbs/memlock.hpp"
#include "verbs/mtu.hpp"

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

/// Send queue depth of the data pair: as many placements as chunks, and one entry for a flush.
std::uint32_t send_depth(const queue_depths& has) noexcept {
  return has.records + 2 * has.chunks + 1;
}

queue_depths clamped(queue_depths wanted, const ibv_port_attr& port,
                     const ibv_device_attr& device) {
  if (port.max_msg_sz > 0) wanted.chunk_bytes = std::min(wanted.chunk_bytes, port.max_msg_sz);
  const auto max_requests = static_cast<std::uint32_t>(std::max(device.max_qp_wr, 64));
  wanted.records = std::min(wanted.records, max_requests / 2);
  return wanted;
}

}  // namespace

endpoint::endpoint(std::shared_ptr<adapter> on, const queue_depths& wanted)
    : on_(std::move(on)), has_(clamped(wanted, on_->port(), on_->attributes())), memory_(has_) {
  const detail::ibverbs& driver = on_->driver();
  const std::string where = on_->text();
  const auto area = memory_.local_area();
  local_mr_ = {driver,
               driver.reg_mr(on_->domain(), area.data(), area.size(), IBV_ACCESS_LOCAL_WRITE)};
  if (!local_mr_) throw registration_error(where, area.size(), 0, errno, read_memlock());
  const auto slots = memory_.chunk_area();
  chunks_mr_ = {driver, driver.reg_mr(on_->domain(), slots.data(), slots.size(),
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)};
  if (!chunks_mr_) {
    throw registration_error(where, slots.size(), area.size(), errno, read_memlock());
  }
  channel_ = {driver, driver.create_comp_channel(on_->context())};
  if (!channel_) throw call_failed("ibv_create_comp_channel", errno, where);
  ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  const std::uint32_t entries = 2 * (has_.records + has_.updates + has_.chunks) + 2;
  cq_ = {driver,
         driver.create_cq(on_->context(), static_cast<int>(entries), this, channel_.get(), 0)};
  if (!cq_) throw call_failed("ibv_create_cq", errno, where);
  generations_.resize(has_.records + has_.updates);
  arrived_.resize(has_.records);
  outgoing_.resize(std::bit_ceil(send_depth(has_)));  // for numbers modulo 2^32
  max_placed_bytes_ = on_->port().max_msg_sz;
  make_queue_pairs();
  post_receives();
}

void endpoint::make_queue_pairs() {
  data_ = make_queue_pair(send_depth(has_), has_.records, requested_inline_bytes);
  control_ = make_queue_pair(has_.updates, has_.updates, 0);
  to_init(data_.get(), IBV_ACCESS_REMOTE_WRITE);
  to_init(control_.get(), 0);
  const ibv_port_attr port = on_->port();
  if (port.state != IBV_PORT_ACTIVE) {
    throw error(errc::unreachable, fmt::format("{}: the port is not active", on_->text()),
                "is the cable in, and the interface up?");
  }
  local_info_.gid = on_->gid();
  local_info_.lid = port.lid;
  local_info_.mtu_bytes = bytes_of(port.active_mtu);
  local_info_.data_pair = data_->qp_num;
  local_info_.control_pair = control_->qp_num;
  local_info_.data_psn = random_number();
  local_info_.control_psn = random_number();
  local_info_.chunks_at = reinterpret_cast<std::uint64_t>(memory_.chunk_area().data());
  local_info_.key = chunks_mr_->rkey;
  local_info_.has = has_;
}

/// Some devices reject inline data, so creation is repeated without it.
owned_qp endpoint::make_queue_pair(std::uint32_t sends, std::uint32_t receives,
                                   std::uint32_t inline_bytes) {
  ibv_qp_init_attr as{};
  as.send_cq = as.recv_cq = cq_.get();
  as.qp_type = IBV_QPT_RC;
  as.cap = {sends, receives, 1, 1, inline_bytes};
  owned_qp made(on_->driver(), on_->driver().create_qp(on_->domain(), &as));
  if (!made && inline_bytes > 0) return make_queue_pair(sends, receives, 0);
  if (!made) throw call_failed("ibv_create_qp", errno, on_->text());
  if (inline_bytes > 0) inline_bytes_ = std::min(as.cap.max_inline_data, inline_bytes);
  return made;
}

void endpoint::to_init(ibv_qp* pair, unsigned access) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.port_num = on_->at().port;
  to.qp_access_flags = access;
  const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (const int failure = on_->driver().modify_qp(pair, &to, mask); failure != 0) {
    throw call_failed("ibv_modify_qp to INIT", failure, on_->text());
  }
}

void endpoint::connect(const qp_info& remote_info) {
  remote_info_ = remote_info;
  credits_.emplace(has_, remote_info.has);
  record_body_bytes_ =
      std::min(has_.record_bytes, remote_info.has.record_bytes) - credit_update_bytes;
  chunk_body_bytes_ = std::min(has_.chunk_bytes, remote_info.has.chunk_bytes) - credit_update_bytes;
  to_ready(data_.get(), remote_info.data_pair, remote_info.data_psn, local_info_.data_psn);
  to_ready(control_.get(), remote_info.control_pair, remote_info.control_psn,
           local_info_.control_psn);
}

void endpoint::to_ready(ibv_qp* pair, std::uint32_t remote_qpn, std::uint32_t remote_psn,
                        std::uint32_t local_psn) {
  const bool is_ethernet = on_->port().link_layer == IBV_LINK_LAYER_ETHERNET;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = mtu_of(std::min(local_info_.mtu_bytes, remote_info_.mtu_bytes));
  to.dest_qp_num = remote_qpn;
  to.rq_psn = remote_psn;
  to.max_dest_rd_atomic = 1;
  to.min_rnr_timer = min_rnr_timer_code;
  to.ah_attr.port_num = on_->at().port;
  to.ah_attr.dlid = remote_info_.lid;
  to.ah_attr.is_global = is_ethernet || remote_info_.lid == 0 ? 1 : 0;
  if (to.ah_attr.is_global != 0) {
    std::memcpy(to.ah_attr.grh.dgid.raw, remote_info_.gid.data(), remote_info_.gid.size());
    to.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(on_->at().gid_index);
    to.ah_attr.grh.hop_limit = hops;
  }
  const int receive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (const int failure = on_->driver().modify_qp(pair, &to, receive); failure != 0) {
    throw call_failed("ibv_modify_qp to RTR", failure, on_->text());
  }
  to = {};
  to.qp_state = IBV_QPS_RTS;
  to.sq_psn = local_psn;
  to.timeout = ack_timeout;
  to.retry_cnt = retries;
  to.rnr_retry = rnr_retries;
  to.max_rd_atomic = 1;
  const int send = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  if (const int failure = on_->driver().modify_qp(pair, &to, send); failure != 0) {
    throw call_failed("ibv_modify_qp to RTS", failure, on_->text());
  }
}

std::shared_ptr<const rails::registered_memory> endpoint::registration_for(mutable_view what,
                                                                           bool by_peer) {
  return on_->memory().registration_for(what, by_peer, has_.registered_bytes, on_);
}

void endpoint::stop() noexcept {
  for (ibv_qp* const pair : {data_.get(), control_.get()}) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_ERR;
    if (pair != nullptr) on_->driver().modify_qp(pair, &to, IBV_QP_STATE);
  }
}

endpoint::~endpoint() {
  stop();
  fail("closed");
  // Requests not flushed by now are dropped when the queue pairs are destroyed.
  for (int i = 0; i < 1000 && !is_quiesced(); ++i) {
    if (!poll()) break;
  }
  destroy_queue_pairs();
  take_events();
  if (cq_ && unacked_events_ > 0) on_->driver().ack_cq_events(cq_.get(), unacked_events_);
  cq_.reset();
}

void endpoint::destroy_queue_pairs() noexcept {
  data_.reset();
  control_.reset();
}

void endpoint::fail(std::string why, bool is_cause) {
  if (!failure_.empty() && (knows_cause_ || !is_cause)) return;
  failure_ = std::move(why);
  knows_cause_ = is_cause;
}

void endpoint::arm() {
  if (const int failure = ibv_req_notify_cq(cq_.get(), 0); failure != 0) {
    fail(fmt::format("{}: ibv_req_notify_cq: {}", on_->text(), std::strerror(failure)));
  }
}

/// Acknowledged in batches and before the queue is destroyed: each acknowledgement takes a lock.
void endpoint::take_events() noexcept {
  constexpr unsigned many = 64;
  if (!channel_ || !cq_) return;
  ibv_cq* of = nullptr;
  void* with = nullptr;
  while (on_->driver().get_cq_event(channel_.get(), &of, &with) == 0) ++unacked_events_;
  if (unacked_events_ < many) return;
  on_->driver().ack_cq_events(cq_.get(), std::exchange(unacked_events_, 0));
}

}  // namespace tandem::verbs
