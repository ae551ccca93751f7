#include "rails/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <tandem/detail/duration_text.hpp>
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
      executor_(std::move(executor)),
      core_(agreed, std::move(who), operation_timeout, lanes, bounds, checksums),
      bounds_(bounds),
      lanes_(executor_, core_, *this, lanes),
      connector_(executor_, core_, lanes_, *this),
      clock_(executor_),
      deadline_(executor_) {
  core_.use_registrar(this);
  core_.messages().set_view_writer(this);
}

void link::run(lane_connector::connect_function connect, lane_connector::probe_function probe) {
  work_ = asio::prefer(executor_, asio::execution::outstanding_work.tracked);
  connector_.use(std::move(connect), std::move(probe));
  tick();
}

bool link::attach(std::uint16_t index, std::uint32_t epoch, std::unique_ptr<lane_connection> over,
                  std::string name) {
  if (!accepts_epoch(index, epoch)) return false;
  lanes_.attach(index, epoch, std::move(over), std::move(name));
  lanes_.flush();
  return true;
}

void link::connected(std::uint16_t lane, std::uint32_t epoch, std::unique_ptr<lane_connection> over,
                     std::string name) {
  attach(lane, epoch, std::move(over), std::move(name));
}

void link::cut(std::uint16_t index) {
  if (lanes_.connection(index) == nullptr) return;
  lanes_.lose(index, "reset on request");
  after_event();
}

void link::carrier_lost(const nic& which) {
  const auto self = shared_from_this();
  lanes_.lose_on(which, fmt::format("the kernel reports {} has no link", which.name));
  after_event();
}

bool link::start(operation& op) {
  const memory_kind kind = op.view.kind;
  if (kind == memory_kind::host || accepts_device_memory_ || is_zero_copy(op.view)) {
    core_.messages().start(op);
    lanes_.flush();
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
  lanes_.flush();
  complete_soon();
}

void link::fail(const error& reason, bool send_close) {
  if (closed_) return;
  closed_ = true;
  if (peer_lost_) send_close = false;  // the peer is gone
  const auto self = shared_from_this();
  lanes_.copy_payloads();
  core_.fail(reason, send_close);
  deadline_.cancel();
  work_ = {};
  connector_.cancel();
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
  lanes_.copy_payloads();
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
  lanes_.close();
}

void link::after_event() {
  apply_core_state();
  complete_done();
}

/// Closes the lanes that the core has given up, writes what it has to send, connects missing lanes.
void link::apply_core_state() {
  if (finished_) return;
  const auto self = shared_from_this();
  if (core_.messages().received_close() && !lingers_until_) on_peer_close();
  lanes_.lose_given_up();
  lanes_.flush();
  if (core_.peer_failed() && !closed_) on_peer_failure();
  const bool done = closed_ && core_.is_flushed() && !lanes_.has_unsent();
  const bool lingered =
      lingers_until_ && (!core_.any_live() || std::chrono::steady_clock::now() >= *lingers_until_);
  if (done || lingered) finish();
  if (wants_lanes()) connector_.start();
}

/// Sends heartbeats and checks timeouts, after reading what has arrived.
void link::tick() {
  lanes_.read_all();
  core_.tick(std::chrono::steady_clock::now());
  if (core_.peer_is_silent()) {
    // No other source knows better: the peer's connection to rank 0 may still be alive.
    if (silent_) lost_ = std::exchange(silent_, nullptr);
    on_peer_lost(
        fmt::format("no traffic on any rail for {}", detail::to_text(bounds_.peer)),
        "its host is down or stopped, or a firewall or a cut network drops packets (all, or "
        "those above the MTU of a link on the way); ");
  }
  after_event();
  if (finished_) return;
  clock_.expires_after(bounds_.heartbeat() / 2);
  clock_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (!cancelled && self) self->tick();
  });
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
  lanes_.flush();
  complete_done();
}

void link::abandon() noexcept {
  const auto self = weak_from_this().lock();
  closed_ = finished_ = true;
  work_ = {};
  lanes_.drop();
  core_.forget_dma();
  registrations_.forget();
  while (operation* op = core_.messages().pop_any()) {
    if (op->destroy != nullptr) op->destroy(*op);
  }
}

std::optional<std::uint32_t> link::register_for_peer(std::uint16_t by, operation& op,
                                                     std::uint64_t bytes) {
  lane_connection* const over = lanes_.connection(by);
  if (over == nullptr || over->domain() == nullptr) return {};
  const mutable_view written = op.view.part(0, static_cast<std::size_t>(bytes));
  const registered_memory* const found = registrations_.find(*over, op, written, true);
  return found == nullptr ? std::nullopt : std::optional(found->remote_key);
}

std::optional<std::uint32_t> link::register_for_read(std::uint16_t by, operation& op,
                                                     std::size_t at_once) {
  lane_connection* const over = lanes_.connection(by);
  if (over == nullptr || over->domain() == nullptr) return {};
  if (at_once > over->max_placed_bytes()) return {};
  const registered_memory* const found = registrations_.find(*over, op, op.view, false);
  return found == nullptr ? std::nullopt : std::optional(found->local_key);
}

bool link::is_zero_copy(const const_view& view) {
  const bool found = lanes_.is_zero_copy(view);
  if (found && view.kind != memory_kind::host) accepts_device_memory_ = true;
  return found;
}

bool link::fetch(const const_view& from, std::byte* to) noexcept {
  try {
    device_copier_.fetch(from, to);
    return true;
  } catch (const error& why) {
    asio::post(executor_, [self = shared_from_this(), why] { self->fail(why, true); });
    return false;
  }
}

void link::store(const std::byte* from, const mutable_view& to) {
  device_copier_.store(from, to);
}

void link::fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) {
  try {
    store(from.get(), op.view.part(0, bytes));
  } catch (const error& why) {
    core_.messages().fail_payload(op, why);
  }
}

}  // namespace tandem::rails
