#include "tcp/fabric.hpp"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <tandem/detail/descriptor_budget.hpp>
#include <tandem/detail/quiet.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "tcp/connect.hpp"
#include "tcp/fabric_handle.hpp"
#include "tcp/link.hpp"

namespace tandem::tcp {
namespace {

using detail::quiet;
/// When a connection ends, rank 0 may know which rank failed first: how long to wait for its
/// report.
constexpr std::chrono::milliseconds loss_grace{500};
/// When to retry if the peer's own connection was preferred to this rank's.
constexpr std::chrono::milliseconds crossed_retry_delay{1000};

std::string address_key(int rank) {
  return fmt::format("tcp/{}", rank);
}

asio::ip::tcp::endpoint parse_endpoint(const std::string& text) {
  const std::size_t separator = text.rfind(' ');
  std::uint16_t port = 0;
  if (separator != std::string::npos)
    std::from_chars(text.data() + separator + 1, text.data() + text.size(), port);
  error_code failure;
  const asio::ip::address address = asio::ip::make_address(text.substr(0, separator), failure);
  if (failure || port == 0) {
    throw error(errc::protocol_violation,
                fmt::format("a peer published the invalid listen address '{}'", text));
  }
  return {address, port};
}

std::string reason_text(const error& reason) {
  const std::string& detail = reason.context().detail;
  return detail.empty() ? reason.code().message() : detail;
}

}  // namespace

mesh::mesh(std::shared_ptr<store> meeting, settings options, asio::any_io_executor executor)
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

void mesh::reserve(std::size_t acceptors, std::size_t for_each_peer) const {
  reserve_for_rank(rank(), size(), kind(), acceptors, for_each_peer);
}

asio::awaitable<void> mesh::open() {
  reserve(1, 1);
  const std::string address = store_->local_address();
  const std::uint16_t port = start_listening(address);
  watch_store();
  co_await publish(address_key(rank()), fmt::format("{} {}", address, port));
}

std::uint16_t mesh::start_listening(const std::string& address) {
  return start_listening(
      address, options_,
      [weak = weak_from_this()](asio::ip::tcp::socket incoming, sealed::keys seal,
                                const hello& local, const hello& remote) {
        const auto self = weak.lock();
        if (!self) return;
        sealed::connection over(std::move(incoming), std::move(seal));
        self->accept_peer(std::move(over), local, remote);
      });
}

std::uint16_t mesh::start_listening(const std::string& address, const settings& with,
                                    handshake_server::peer_handler take) {
  const std::weak_ptr<mesh> weak = weak_from_this();
  const auto opened = std::make_shared<handshake_server>(
      listen(executor_, address, 0, key_, with), local_hello_, key_, with,
      [weak](const hello& remote) {
        const auto self = weak.lock();
        return self ? self->check_hello(remote) : handshake_status::wrong_job;
      },
      std::move(take));
  opened->run();
  const std::uint16_t port = opened->at().port();
  add_listen_endpoint(opened);
  return port;
}

void mesh::add_listen_endpoint(std::shared_ptr<listen_endpoint> opened) {
  listen_endpoints_.push_back(std::move(opened));
}

void mesh::watch_store() {
  store_->on_lost([weak = weak_from_this()](const error& reason) {
    if (const auto self = weak.lock()) self->fail(reason, false);
  });
}

asio::awaitable<void> mesh::publish(std::string name, std::string value) {
  return store_->set(std::move(name), std::move(value));
}

asio::awaitable<std::string> mesh::look_up(std::string name) {
  std::vector<std::string> names(1, std::move(name));
  std::vector<std::string> found = co_await store_->get(std::move(names), options_.meet_timeout);
  co_return std::move(found.front());
}

hello mesh::make_hello(int peer) const noexcept {
  hello local = local_hello_;
  local.to = peer;
  return local;
}

handshake_status mesh::check_hello(const hello& remote) noexcept {
  const peer_state& peer = peers_[static_cast<std::size_t>(remote.from)];
  const bool local_wins = peer.connecting && rank() < remote.from;
  return peer.made || local_wins ? handshake_status::crossed : handshake_status::accepted;
}

void mesh::accept_peer(sealed::connection incoming, const hello& local, const hello& remote) {
  const std::shared_ptr<link> over = make_link(std::move(incoming), local, remote, options_);
  over->on_lost(lost_handler());
  over->on_silent(silent_handler());
  install(remote.from, std::make_unique<link_channel>(over));
}

void mesh::install(int peer, std::unique_ptr<channel> made) {
  peer_state& state = peers_[static_cast<std::size_t>(peer)];
  if (state.made || is_over()) return;  // closes it
  state.made = std::move(made);
  changed_.notify_all();
}

std::function<bool(const error&)> mesh::lost_handler() {
  return [weak = weak_from_this()](const error& reason) {
    const auto self = weak.lock();
    return self && self->on_lost(reason);
  };
}

std::function<bool(const error&)> mesh::silent_handler() {
  return [weak = weak_from_this()](const error& reason) {
    const auto self = weak.lock();
    if (self) self->fail(reason, true);
    return self != nullptr;
  };
}

void mesh::check_peer(int peer) const {
  if (peer >= 0 && peer < size() && peer != rank()) return;
  throw error(errc::bad_input,
              fmt::format("rank {} has no channel to rank {} (size {})", rank(), peer, size()));
}

asio::awaitable<std::reference_wrapper<channel>> mesh::to(int peer) {
  check_peer(peer);
  peer_state& state = peers_[static_cast<std::size_t>(peer)];
  const auto self = shared_from_this();
  while (!state.made) {
    if (failed_) throw error(*failed_);
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
asio::awaitable<void> mesh::connect(int peer) {
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

asio::awaitable<void> mesh::connect_peer(int peer) {
  const peer_state& state = peers_[static_cast<std::size_t>(peer)];
  const std::string published = co_await look_up(address_key(peer));
  const std::vector<asio::ip::tcp::endpoint> where(1, parse_endpoint(published));
  asio::steady_timer timer(executor_);
  while (!state.made && !is_over()) {
    const hello local = make_hello(peer);
    hello answer;
    sealed::connection made = co_await connect_and_handshake(where, local, key_, options_, answer);
    if (answer.answer == handshake_status::accepted) {
      const std::shared_ptr<link> over = make_link(std::move(made), local, answer, options_);
      over->on_lost(lost_handler());
      over->on_silent(silent_handler());
      install(peer, std::make_unique<link_channel>(over));
      co_return;
    }
    // The peer's own connection is expected; check again in case it failed.
    timer.expires_after(crossed_retry_delay);
    co_await timer.async_wait(quiet);
  }
}

bool mesh::on_lost(const error& reason) {
  if (is_over()) return false;
  if (report_pending_) return true;
  report_pending_ = true;
  asio::co_spawn(executor_, report_after_grace(reason), asio::detached);
  return true;
}

asio::awaitable<void> mesh::report_after_grace(error reason) {
  const auto self = shared_from_this();
  grace_.expires_after(loss_grace);
  co_await grace_.async_wait(quiet);
  fail(reason, true);
}

void mesh::fail(const error& reason, bool notify_others) noexcept {
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
  log(log_level::info, "tcp", failed_->what());
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

void mesh::close() noexcept {
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

asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options) {
  return open_fabric<mesh>(std::move(meeting), std::move(options));
}

}  // namespace tandem::tcp
