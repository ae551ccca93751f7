#include "transports/rails/link.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/log.hpp>
#include <utility>

namespace tandem::rails {
namespace {

constexpr std::chrono::seconds linger_limit{2};

}  // namespace

link::link(asio::any_io_executor executor, const protocol::limits& agreed, protocol::identity who,
           std::chrono::steady_clock::duration operation_timeout, std::size_t lanes,
           const timeouts& bounds, bool checksums)
    : core_member{core(agreed, who, operation_timeout, lanes, bounds, checksums)},
      link_base(std::move(executor), "rails", core_.messages()),
      bounds_(bounds),
      lanes_(get_executor(), core_, *this, lanes),
      connector_(get_executor(), core_, lanes_, *this),
      clock_(get_executor()),
      peer_(who.peer) {
  core_.use_registrar(this);
  core_.messages().set_view_writer(this);
}

void link::run(lane_connector::connect_function connect, lane_connector::probe_function probe) {
  keep_loop_running();
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
  return is_done(op);
}

void link::stop(const error& reason, bool notify_peer) {
  lanes_.copy_payloads();
  core_.fail(reason, notify_peer);
  connector_.cancel();
  if (notify_peer) {
    linger();
  } else {
    finish();
  }
}

/// The peer has closed: every operation ends, and its view is returned with its completion. The
/// peer still waits for the report of its close frame.
void link::on_peer_close() {
  lanes_.copy_payloads();
  core_.drop_chunks();
  lingers_until_ = std::chrono::steady_clock::now() + linger_limit;
  let_loop_end();
}

/// Completed sends and the close frame still go out, for a bounded time.
void link::linger() {
  lingers_until_ = std::chrono::steady_clock::now() + linger_limit;
  apply_core_state();
}

void link::finish() {
  if (std::exchange(finished_, true)) return;
  clock_.cancel();
  let_loop_end();
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
  if (core_.peer_failed() && !is_over()) peer_failed();
  const bool done = is_over() && core_.is_flushed() && !lanes_.has_unsent();
  const bool lingered =
      lingers_until_ && (!core_.any_live() || std::chrono::steady_clock::now() >= *lingers_until_);
  if (done || lingered) finish();
  if (wants_lanes()) connector_.start();
}

/// A peer whose loop does not run sends no heartbeats, but its process answers probes.
void link::check_liveness(core::time_point now) {
  if (!monitor_) return;
  monitor_->loop_runs(now);
  if (core_.wants_probe(now)) monitor_->probe(peer_);
  const std::optional<liveness::monitor::sighting> seen = monitor_->seen(peer_);
  if (seen) core_.peer_answered(seen->at, seen->busy_for);
  const auto busy_for = core_.peer_busy_for(now);
  if (busy_for >= bounds_.peer && !reported_busy_) {
    reported_busy_ = true;
    log(log_level::warning, "rails",
        fmt::format("rank {} is busy: its process runs, but its event loop has not for {}; waiting",
                    peer_, detail::to_text(busy_for)));
  }
  if (busy_for == core::time_point::duration::zero() && reported_busy_) {
    reported_busy_ = false;
    log(log_level::info, "rails", fmt::format("the event loop of rank {} runs again", peer_));
  }
}

/// Sends heartbeats and checks timeouts, after reading what has arrived.
void link::tick() {
  lanes_.read_all();
  const core::time_point now = std::chrono::steady_clock::now();
  check_liveness(now);
  core_.tick(now);
  if (core_.peer_is_silent() && core_.peer_loop_runs(now)) {
    peer_lost(
        fmt::format("no traffic on any rail for {}, although it runs and answers small packets",
                    detail::to_text(bounds_.peer)),
        "probably packets above the MTU of a link on the way are lost: give all interfaces and "
        "switches on the way the same MTU; or a firewall drops TCP; ",
        true);
  } else if (core_.peer_is_silent()) {
    peer_lost(fmt::format("no traffic on any rail for {}", detail::to_text(bounds_.peer)),
              "its host is down or stopped, or a firewall or a cut network drops packets (all, or "
              "those above the MTU of a link on the way); ",
              true);
  }
  after_event();
  if (finished_) return;
  clock_.expires_after(bounds_.heartbeat() / 2);
  clock_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = std::static_pointer_cast<link>(weak.lock());
    if (!cancelled && self) self->tick();
  });
}

bool link::abandon_io() noexcept {
  finished_ = true;
  lanes_.drop();
  core_.forget_dma();
  registrations_.forget();
  return true;
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
    asio::post(get_executor(), [self = shared_from_this(), why] { self->fail(why, true); });
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
