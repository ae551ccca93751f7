#include "fabric/fabric_base.hpp"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/detail/descriptor_budget.hpp>
#include <tandem/detail/meter.hpp>
#include <tandem/detail/quiet.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "fabric/fabric_handle.hpp"
#include "fabric/tcp_connect.hpp"

namespace tandem::transport {
namespace {

using detail::quiet;
/// When a connection ends, rank 0 may know which rank failed first: how long to wait for its
/// report.
constexpr std::chrono::milliseconds loss_grace{500};
/// When to retry if the peer's own connection was preferred to this rank's.
constexpr std::chrono::milliseconds crossed_retry_delay{1000};

std::string reason_text(const error& reason) {
  const std::string& detail = reason.context().detail;
  return detail.empty() ? reason.code().message() : detail;
}

}  // namespace

fabric_base::fabric_base(std::shared_ptr<store> meeting, settings options,
                         asio::any_io_executor executor)
    : store_(std::move(meeting)),
      options_(std::move(options)),
      executor_(std::move(executor)),
      key_(store_->data_key()),
      peers_(static_cast<std::size_t>(store_->who().size)),
      changed_(executor_),
      grace_(executor_) {
  local_hello_.job = job_number(store_->who().job);
  local_hello_.from = store_->who().rank;
  local_hello_.size = store_->who().size;
  local_hello_.limits = protocol::offered(options_);
}

void fabric_base::reserve(std::size_t acceptors, std::size_t for_each_peer) const {
  reserve_for_rank(rank(), size(), kind(), acceptors, for_each_peer);
}

std::uint16_t fabric_base::listen_over_tcp(const std::string& address, const settings& with,
                                           handshake_server::peer_handler take) {
  asio::ip::tcp::acceptor at = listen(executor_, address, 0, key_, with);
  const std::uint16_t port = at.local_endpoint().port();
  accept_at<asio::ip::tcp::socket>(std::move(at), with, std::move(take));
  return port;
}

void fabric_base::add_listen_endpoint(std::shared_ptr<listen_endpoint> opened) {
  listen_endpoints_.push_back(std::move(opened));
}

void fabric_base::watch_store() {
  store_->on_lost([weak = weak_from_this()](const error& reason) {
    if (const auto self = weak.lock()) self->fail(reason, false);
  });
}

asio::awaitable<void> fabric_base::publish_address(std::string address) {
  return store_->set(fmt::format("{}/{}", kind(), rank()), std::move(address));
}

asio::awaitable<std::string> fabric_base::find_address(int peer) {
  std::vector<std::string> names(1, fmt::format("{}/{}", kind(), peer));
  std::vector<std::string> found = co_await store_->get(std::move(names), options_.meet_timeout);
  co_return std::move(found.front());
}

asio::awaitable<void> fabric_base::wait_for_crossed() const {
  asio::steady_timer timer(executor_, crossed_retry_delay);
  co_await timer.async_wait(quiet);
}

hello fabric_base::make_hello(int peer) const noexcept {
  hello local = local_hello_;
  local.to = peer;
  return local;
}

handshake_status fabric_base::check_hello(const hello& remote) noexcept {
  const peer_state& peer = peers_[static_cast<std::size_t>(remote.from)];
  const bool local_wins = peer.connecting && rank() < remote.from;
  return peer.made || local_wins ? handshake_status::crossed : handshake_status::accepted;
}

void fabric_base::install(int peer, std::unique_ptr<channel> made) {
  peer_state& state = peers_[static_cast<std::size_t>(peer)];
  if (state.made || is_over()) return;  // closes it
  state.made = std::move(made);
  changed_.notify_all();
}

std::function<bool(const error&)> fabric_base::lost_handler() {
  return [weak = weak_from_this()](const error& reason) {
    const auto self = weak.lock();
    return self && self->on_lost(reason);
  };
}

std::function<bool(const error&)> fabric_base::silent_handler() {
  return [weak = weak_from_this()](const error& reason) {
    const auto self = weak.lock();
    if (self) self->fail(reason, true);
    return self != nullptr;
  };
}

void fabric_base::check_peer(int peer) const {
  if (peer >= 0 && peer < size() && peer != rank()) return;
  throw error(errc::bad_input,
              fmt::format("rank {} has no channel to rank {} (size {})", rank(), peer, size()));
}

/// Of a call that comes after the failure of another one.
void fabric_base::throw_failed() const {
  error_context here = failed_->context();
  here.phase = "connect";
  throw error(failed_->code(), std::move(here));
}

asio::awaitable<std::reference_wrapper<channel>> fabric_base::to(int peer) {
  check_peer(peer);
  peer_state& state = peers_[static_cast<std::size_t>(peer)];
  const auto self = shared_from_this();
  while (!state.made) {
    if (failed_) throw_failed();
    if (closed_) throw error(errc::channel_closed, "this rank has left the job");
    if (!state.connecting) {
      state.connecting = true;
      state.failure.reset();
      state.attempt = std::make_shared<cancellable>();
      state.attempt->start(executor_, connect(peer), [keep = state.attempt](std::exception_ptr) {});
    }
    co_await changed_.wait();
    if (state.failure && !state.connecting && !is_over()) throw error(*state.failure);
  }
  co_return *state.made;
}

/// Runs independently of its callers, so that a cancelled caller does not cancel the connection of
/// others.
asio::awaitable<void> fabric_base::connect(int peer) {
  const auto self = shared_from_this();
  peer_state& state = peers_[static_cast<std::size_t>(peer)];
  try {
    co_await connect_peer(peer);
  } catch (const error& e) {
    state.failure = with_context(
        e,
        {.rank = rank(), .peer = peer, .rail = {}, .phase = "connect", .detail = {}, .advice = {}});
  } catch (const boost::system::system_error& e) {
    const std::optional<error> known = detail::find_exhausted(e);
    state.failure = known ? *known : error(errc::unreachable, e.what());
  } catch (const std::exception& e) {
    state.failure = error(errc::unreachable, describe(e));
  }
  state.connecting = false;
  changed_.notify_all();
}

bool fabric_base::on_lost(const error& reason) {
  if (is_over()) return false;
  if (report_pending_) return true;
  report_pending_ = true;
  asio::co_spawn(executor_, report_after_grace(reason), asio::detached);
  return true;
}

asio::awaitable<void> fabric_base::report_after_grace(error reason) {
  const auto self = shared_from_this();
  grace_.expires_after(loss_grace);
  co_await grace_.async_wait(quiet);
  fail(reason, true);
}

void fabric_base::fail(const error& reason, bool notify_others) noexcept {
  if (is_over()) return;
  const auto self = shared_from_this();
  // The reason may come from another rank; the error here names this rank as its origin.
  error_context here = reason.context();
  const int reporter = std::exchange(here.rank, rank());
  // Where another rank reports this one as lost, swap the two ends of the failed connection.
  if (here.peer == rank()) {
    here.peer = reporter != rank() ? reporter : -1;
    if (here.peer >= 0)
      here.detail = fmt::format("rank {} reports: {}", reporter, reason_text(reason));
  }
  failed_ = error(reason.code(), std::move(here));
  log(log_level::info, kind(), failed_->what());
  detail::count_failure(rank(), failed_->code());
  if (notify_others) store_->report(reason);
  for (const auto& each : listen_endpoints_) each->close();
  ended();
  grace_.cancel();
  for (peer_state& peer : peers_) {
    if (peer.made) peer.made->fail(*failed_);
    if (peer.attempt) peer.attempt->cancel();
  }
  changed_.notify_all();
}

void fabric_base::close() noexcept {
  if (closed_) return;
  const auto self = shared_from_this();
  closed_ = true;
  for (const auto& each : listen_endpoints_) each->close();
  ended();
  grace_.cancel();
  for (peer_state& peer : peers_) {
    if (peer.made) peer.made->close();
    if (peer.attempt) peer.attempt->cancel();
  }
  changed_.notify_all();
  store_->leave();
}

/// While ranks connect, each peer may have an incoming and an outgoing connection, of which one is
/// kept. Each acceptor keeps a descriptor in reserve.
void reserve_for_rank(int rank, int size, std::string_view kind, std::size_t acceptors,
                      std::size_t for_each_peer) {
  const std::uint64_t to_peers = (static_cast<std::uint64_t>(size) - 1) * for_each_peer;
  const std::uint64_t least = 2 * acceptors + to_peers;
  detail::reserve_descriptors(
      {fmt::format("rank {} of {} over {}", rank, size, kind), least, least + to_peers});
}

error open_failure(int rank, std::exception_ptr failure) {
  const error_context here{
      .rank = rank, .rail = {}, .phase = "opening the fabric", .detail = {}, .advice = {}};
  try {
    std::rethrow_exception(failure);
  } catch (const error& e) {
    return with_context(e, here);
  } catch (...) {
    error_context context = here;
    context.detail = describe(failure);
    return error(make_error_code(errc::peer_lost), std::move(context));
  }
}

error left_without_close(int rank) {
  return error(errc::peer_lost,
               {.peer = rank,
                .rail = {},
                .phase = {},
                .detail = fmt::format("rank {} destroyed its fabric without closing it", rank),
                .advice = fmt::format("see the last output of rank {}", rank)});
}

}  // namespace tandem::transport
