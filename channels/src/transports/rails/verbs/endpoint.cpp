#include "transports/rails/verbs/endpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>
#include <utility>

#include "transports/rails/verbs/capabilities.hpp"
#include "transports/rails/verbs/memlock.hpp"
#include "transports/rails/verbs/port_attributes.hpp"

namespace tandem::verbs {
namespace {

queue_depths clamped(queue_depths wanted, const ibv_port_attr& port,
                     const ibv_device_attr& device) {
  if (port.max_msg_sz > 0) wanted.chunk_bytes = std::min(wanted.chunk_bytes, port.max_msg_sz);
  const auto max_requests = static_cast<std::uint32_t>(std::max(device.max_qp_wr, 64));
  wanted.records = std::min(wanted.records, max_requests / 2);
  return wanted;
}

}  // namespace

endpoint::endpoint(std::shared_ptr<adapter> on, const queue_depths& wanted)
    : on_(std::move(on)),
      has_(clamped(wanted, on_->port(), on_->attributes())),
      memory_(has_),
      sends_(has_),
      arrived_(has_.records) {
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
  max_placed_bytes_ = on_->port().max_msg_sz;
  make_queue_pairs();
  post_receives();
}

void endpoint::make_queue_pairs() {
  data_ = {*on_,
           cq_.get(),
           {send_queue::depth(has_), has_.records, requested_inline_bytes},
           IBV_ACCESS_REMOTE_WRITE};
  control_ = {*on_, cq_.get(), {has_.updates, has_.updates, 0}, 0};
  record_receives_ = {data_,
                      request_kind::record_in,
                      {memory_.record_in(0), has_.records, has_.record_bytes, local_mr_->lkey}};
  update_receives_ = {control_,
                      request_kind::update_in,
                      {memory_.update_in(0), has_.updates, credit_update_bytes, local_mr_->lkey}};
  const ibv_port_attr port = on_->port();
  if (port.state != IBV_PORT_ACTIVE) {
    throw error(errc::unreachable, fmt::format("{}: the port is not active", on_->text()),
                "is the cable in, and the interface up?");
  }
  local_info_.gid = on_->gid();
  local_info_.lid = port.lid;
  local_info_.mtu_bytes = bytes_of(port.active_mtu);
  local_info_.data_pair = data_.local().number;
  local_info_.control_pair = control_.local().number;
  local_info_.data_psn = data_.local().psn;
  local_info_.control_psn = control_.local().psn;
  local_info_.chunks_at = reinterpret_cast<std::uint64_t>(memory_.chunk_area().data());
  local_info_.key = chunks_mr_->rkey;
  local_info_.has = has_;
}

void endpoint::connect(const qp_info& remote_info) {
  remote_info_ = remote_info;
  credits_.emplace(has_, remote_info.has);
  record_body_bytes_ =
      std::min(has_.record_bytes, remote_info.has.record_bytes) - credit_update_bytes;
  chunk_body_bytes_ = std::min(has_.chunk_bytes, remote_info.has.chunk_bytes) - credit_update_bytes;
  const ibv_mtu path_mtu = mtu_of(std::min(local_info_.mtu_bytes, remote_info.mtu_bytes));
  data_.connect({remote_info.data_pair, remote_info.data_psn}, remote_info, path_mtu);
  control_.connect({remote_info.control_pair, remote_info.control_psn}, remote_info, path_mtu);
}

std::shared_ptr<const rails::registered_memory> endpoint::registration_for(mutable_view what,
                                                                           bool by_peer) {
  return on_->memory().registration_for(what, by_peer, has_.registered_bytes, on_);
}

void endpoint::stop() noexcept {
  data_.stop();
  control_.stop();
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
  data_.destroy();
  control_.destroy();
}

void endpoint::fail(std::string why, bool is_cause) {
  if (!failure_.empty() && (knows_cause_ || !is_cause)) return;
  failure_ = std::move(why);
  knows_cause_ = is_cause;
}

void endpoint::arm() {
  if (const int failure = ibv_req_notify_cq(cq_.get(), 0); failure != 0) {
    fail(fmt::format("{}: ibv_req_notify_cq: {}", on_->text(), detail::errno_text(failure)));
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
