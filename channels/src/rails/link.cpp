#include "rails/link.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <tandem/log.hpp>
#include <utility>

namespace tandem::rails {
namespace {

constexpr std::chrono::seconds linger_limit{2};
constexpr std::chrono::seconds late_send_recheck{1};

}  // namespace

link::link(asio::any_io_executor executor, const protocol::limits& agreed, protocol::identity who,
           std::chrono::steady_clock::duration operation_timeout, std::size_t lanes,
           const timeouts& bounds, bool checksums)
    : pending_owner(executor),
      pollable(executor),
      executor_(std::move(executor)),
      core_(agreed, std::move(who), operation_timeout, lanes, bounds, checksums),
      bounds_(bounds),
      lanes_(lanes),
      names_(lanes),
      lost_lanes_(lanes),
      connect_attempts_(lanes),
      clock_(executor_),
      deadline_(executor_) {
  core_.use_registrar(this);
  core_.messages().set_view_writer(this);
}

void link::run(connector connect, liveness_probe probe) {
  work_ = asio::prefer(executor_, asio::execution::outstanding_work.tracked);
  connector_ = std::move(connect);
  probe_ = std::move(probe);
  tick();
}

bool link::start(operation& op) {
  const memory_kind kind = op.view.kind;
  if (kind == memory_kind::host || accepts_device_memory_ || is_zero_copy(op.view)) {
    core_.messages().start(op);
    flush();
  } else {
    core_.messages().refuse(
        op, error(errc::unsupported_memory,
                  fmt::format("this channel's NICs cannot access this {} memory", name(kind)),
                  "create its fabric with tandem::devices::make_fabric"));
  }
  const bool is_done = core_.messages().take_if_done(op);
  complete_soon();
  if (is_done) return true;
  if (op.due < deadline_at_) arm_deadline(op.due);
  return false;
}

void link::cancel(operation& op) {
  core_.messages().cancel(op);
  flush();
  complete_soon();
}

void link::fail(const error& reason, bool send_close) {
  if (closed_) return;
  closed_ = true;
  if (peer_lost_) send_close = false;  // the peer is gone
  const auto self = shared_from_this();
  for (const lane_ptr& l : lanes_) {
    if (l) l->writer.copy_payloads();
  }
  core_.fail(reason, send_close);
  deadline_.cancel();
  work_ = {};
  for (const auto& one : connect_attempts_) {
    if (one) one->cancel();
  }
  if (active_probe_) active_probe_->cancel();
  if (send_close) {
    linger();
  } else {
    finish();
  }
  complete_soon();
}

/// The peer has closed: every operation ends, and its view is returned with its completion. The
/// peer still waits for the report of its close frame.
void link::on_peer_close() {
  for (const lane_ptr& l : lanes_) {
    if (l) l->writer.copy_payloads();
  }
  core_.drop_chunks();
  lingers_until_ = std::chrono::steady_clock::now() + linger_limit;
  work_ = {};
}

/// Completed sends and the close frame still go out, for a bounded time.
void link::linger() {
  lingers_until_ = std::chrono::steady_clock::now() + linger_limit;
  apply_core_state();
}

void link::finish() {
  if (std::exchange(finished_, true)) return;
  clock_.cancel();
  deadline_.cancel();
  work_ = {};
  for (lane_ptr& l : lanes_) {
    if (!l) continue;
    close(*l, false);
    l.reset();
  }
}

/// Within a job the owner finds out which rank failed first; a channel without a job has only this
/// peer.
void link::on_peer_failure() {
  if (lost_) {
    on_peer_lost("it gave up after an error");
  } else {
    fail(error(errc::peer_closed, "the peer gave up after an error", "see the peer's last output"),
         false);
  }
}

void link::on_peer_lost(const std::string& how, const std::string& advice) {
  if (closed_ || std::exchange(peer_lost_, true)) return;
  const int peer = core_.messages().who().peer;
  const std::string who = peer >= 0 ? fmt::format("rank {}", peer) : "the peer";
  const error reason(errc::peer_lost, fmt::format("{} is gone: {}", who, how),
                     fmt::format("{}see the last output of {}", advice, who));
  log(log_level::info, "rails", reason.what());
  if (lost_ && lost_(reason)) return;
  fail(reason, false);
}

void link::broken(const std::string& why) {
  const error reason(errc::protocol_violation, "protocol violation by the peer: " + why,
                     "is another program or another version at the other end?");
  log(log_level::warning, "rails", reason.what());
  fail(reason, false);
}

void link::complete_done() {
  while (operation* op = core_.messages().pop_done()) op->complete(*op);
}

/// Operations complete on the executor, never inside the call that started them.
void link::complete_soon() {
  if (completion_posted_ || !core_.messages().has_done()) return;
  completion_posted_ = true;
  asio::post(executor_, [self = shared_from_this()] {
    self->completion_posted_ = false;
    self->complete_done();
  });
}

void link::arm_deadline(operation::time_point when) {
  deadline_at_ = when;
  if (closed_ || when == operation::time_point::max()) return;
  deadline_.expires_at(when);
  deadline_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (!cancelled && self && !self->closed_) self->expire();
  });
}

/// An expired send with chunks in flight completes when the peer reports them or is lost.
void link::expire() {
  const auto now = std::chrono::steady_clock::now();
  auto found = core_.messages().expire(now);
  if (found.stuck) found.next = std::min(found.next, now + late_send_recheck);
  arm_deadline(found.next);
  flush();
  complete_done();
}

void link::abandon() noexcept {
  const auto self = weak_from_this().lock();
  closed_ = finished_ = true;
  work_ = {};
  lanes_.assign(lanes_.size(), nullptr);
  core_.forget_dma();
  registrations_.forget();
  while (operation* op = core_.messages().pop_any()) {
    if (op->destroy != nullptr) op->destroy(*op);
  }
}

}  // namespace tandem::rails
