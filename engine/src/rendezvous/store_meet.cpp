#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/async.hpp>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/connect_failure.hpp>
#include <tandem/detail/descriptor_budget.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/name_lookup.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/detail/trust.hpp>
#include <tandem/log.hpp>
#include <tandem/store.hpp>
#include <utility>
#include <vector>

#include "rendezvous/host_text.hpp"
#include "rendezvous/listen_address.hpp"
#include "rendezvous/server_addresses.hpp"
#include "rendezvous/store_client.hpp"
#include "rendezvous/store_server.hpp"

namespace tandem {
namespace rendezvous {
namespace {

using time_point = std::chrono::steady_clock::time_point;
constexpr std::chrono::milliseconds first_backoff{10};
constexpr std::chrono::milliseconds max_backoff{250};
/// An address that drops packets must not use up the time for the other addresses.
constexpr std::chrono::milliseconds max_connect_time{3'000};
constexpr auto check_address =
    "give rank 0's address (TANDEM_RENDEZVOUS, or MASTER_ADDR and "
    "MASTER_PORT)";

class joined_store final : public store {
 public:
  joined_store(std::shared_ptr<store_client> client, std::shared_ptr<store_server> server)
      : client_(std::move(client)), server_(std::move(server)) {}

  ~joined_store() override {
    if (!origin_.is_here()) return;
    client_->stop();
    if (server_) server_->stop();
  }

  const launch_info& who() const noexcept override { return client_->who(); }
  std::string local_address() const override { return client_->local_address(); }
  secret data_key() const override { return client_->data_key(); }

  asio::awaitable<void> set(std::string key, std::string value) override {
    origin_.require_here("this store");
    return store_client::set(client_, std::move(key), std::move(value));
  }
  asio::awaitable<std::vector<std::string>> get(std::vector<std::string> keys,
                                                std::chrono::milliseconds limit) override {
    origin_.require_here("this store");
    return store_client::get(client_, std::move(keys), limit);
  }
  asio::awaitable<std::int64_t> add(std::string key, std::int64_t amount) override {
    origin_.require_here("this store");
    return store_client::add(client_, std::move(key), amount);
  }
  void on_lost(lost_handler handler) override { client_->on_lost(std::move(handler)); }

  void report(const error& reason) noexcept override {
    attempt([&] {
      // Rank 0's process may exit next, before it would read its own connection.
      if (server_) {
        server_->report(reason);
      } else {
        client_->report(reason);
      }
    });
  }

  void leave() noexcept override {
    attempt([&] {
      if (server_) server_->leave();
      client_->leave();
    });
  }

 private:
  template <class Work>
  void attempt(Work work) noexcept {
    if (!origin_.is_here()) return;
    try {
      work();
    } catch (const std::exception& e) {
      log(log_level::error, "rendezvous", describe(e));
    }
  }

  const detail::process_origin origin_;
  std::shared_ptr<store_client> client_;
  std::shared_ptr<store_server> server_;
};

[[noreturn]] void fail(const launch_info& who, errc code, std::string detail, std::string advice) {
  error_context c;
  c.rank = who.rank;
  if (code != errc::bad_input) c.peer = 0;
  c.detail = std::move(detail);
  c.advice = std::move(advice);
  throw error(make_error_code(code), std::move(c));
}

void check(const launch_info& who) {
  if (who.size >= 1 && who.rank >= 0 && who.rank < who.size && who.port != 0 &&
      !who.address.empty()) {
    return;
  }
  throw error(errc::bad_input,
              fmt::format("invalid rank, size or address: rank {} of {} at '{}' port {}", who.rank,
                          who.size, who.address, who.port),
              "ranks count from 0 to size - 1, and the store needs an address and a port");
}

asio::awaitable<void> sleep_for(std::chrono::milliseconds time, time_point until) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, std::min(std::chrono::steady_clock::now() + time, until));
  co_await timer.async_wait(asio::use_awaitable);
}

/// A name may become known later, as that of a container that still starts: retried until the
/// deadline.
asio::awaitable<std::vector<asio::ip::address>> resolve(asio::any_io_executor executor,
                                                        launch_info who, settings options,
                                                        time_point until) {
  if (const auto address = detail::numeric_address(who.address)) {
    std::vector<asio::ip::address> one(1, *address);
    co_return one;
  }
  for (bool first = true;; first = false) {
    detail::name_lookup question(executor, who.address);
    std::optional<detail::name_addresses> answer = co_await question.until(until);
    if (answer && !answer->found.empty()) co_return std::move(answer->found);
    const std::string why =
        answer ? answer->why_none : "the resolver does not answer (see /etc/resolv.conf)";
    if (std::chrono::steady_clock::now() >= until) {
      fail(who, errc::unreachable,
           fmt::format("host '{}' has no address: {} within {}", who.address, why,
                       detail::to_text(options.meet_timeout)),
           std::string(check_address) + " that this host can resolve (getent hosts NAME)");
    }
    if (first) {
      log(log_level::warning, "rendezvous",
          fmt::format("host '{}' has no address yet ({}); trying again", who.address, why));
    }
    co_await sleep_for(max_backoff, until);
  }
}

/// Adds this rank to an error of `choose`.
template <class Choose>
auto add_rank_to_error(const launch_info& who, Choose choose) {
  try {
    return choose();
  } catch (const error& refusal) {
    error_context outer;
    outer.rank = who.rank;
    throw with_context(refusal, outer);
  }
}

asio::awaitable<void> connect_once(tcp::socket& socket, tcp::endpoint to) {
  error_code unopened;
  detail::open(socket, to.protocol(), unopened);
  if (unopened) throw boost::system::system_error(unopened);
  // While nothing listens on a port in the ephemeral range, TCP simultaneous open can connect the
  // socket to itself. It must not keep rank 0 from listening there, and counts as refused.
  socket.set_option(tcp::socket::reuse_address(true));
  co_await socket.async_connect(to, asio::use_awaitable);
  if (socket.local_endpoint() == socket.remote_endpoint()) {
    throw boost::system::system_error(asio::error::connection_refused);
  }
}

/// Empty when connected, else the cause, which is added to `tries`.
asio::awaitable<error_code> connect(tcp::socket& socket, tcp::endpoint to, time_point until,
                                    detail::connect_tries& tries) {
  using duration = std::chrono::steady_clock::duration;
  const duration left = until - std::chrono::steady_clock::now();
  const duration limit = std::clamp<duration>(left, first_backoff, max_connect_time);
  error_code why;
  try {
    co_await with_deadline(limit, connect_once(socket, to), "connect");
  } catch (const boost::system::system_error& failed) {
    if (detail::is_exhausted(failed.code(), detail::resource::descriptor)) {
      throw detail::exhausted(failed.code().value(), detail::resource::descriptor,
                              "cannot open a socket to rank 0's store");
    }
    why = failed.code();
  }
  if (why) tries.failed(to, why, limit);
  co_return why;
}

[[noreturn]] void throw_unreachable(const store_client& client, const server_addresses& where,
                                    const detail::connect_tries& tries, const settings& options) {
  const launch_info& who = client.who();
  std::string detail = fmt::format("rank 0 is unreachable at {} for {}", client.where(),
                                   detail::to_text(options.meet_timeout));
  if (!tries.empty()) detail += fmt::format("; tried {}", tries.text());
  if (where.is_own_host_only()) {
    fail(who, errc::unreachable, std::move(detail),
         fmt::format("'{}' resolves to loopback on this host (see /etc/hosts): {}", who.address,
                     check_address));
  }
  const std::string not_running = std::string("is rank 0 running? ") + check_address;
  fail(who, errc::unreachable, std::move(detail),
       tries.advice(fmt::format("rank {}", who.rank), "rank 0", not_running));
}

/// Connects, with retries, until rank 0 has accepted this rank.
asio::awaitable<void> connect_until_accepted(std::shared_ptr<store_client> client,
                                             server_addresses where, settings options,
                                             time_point until) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  error_code refused;
  detail::connect_tries tries;
  std::chrono::milliseconds wait = first_backoff;
  while (std::chrono::steady_clock::now() < until) {
    const endpoints all = where.all();
    for (const tcp::endpoint& to : all) {
      tcp::socket socket(executor);
      refused = co_await connect(socket, to, until, tries);
      if (refused) continue;
      const bool accepted = co_await store_client::handshake(client, std::move(socket), until);
      if (accepted) co_return;
    }
    co_await sleep_for(wait, until);
    wait = std::min(2 * wait, max_backoff);
    where.refresh();
  }
  if (refused || client->handshake_failure().empty())
    throw_unreachable(*client, where, tries, options);
  fail(client->who(), errc::not_tandem,
       fmt::format("{} {} for {}", client->where(), client->handshake_failure(),
                   detail::to_text(options.meet_timeout)),
       "another program may use this port, or rank 0 is stopped");
}

/// A rank that is connected to rank 0 by an address that other hosts cannot use (loopback, or one
/// of several families) publishes the address that ranks of other hosts used.
asio::awaitable<void> find_address_for_other_hosts(std::shared_ptr<store_client> client,
                                                   settings options) {
  if (detail::numeric_address(client->who().address) || !client->is_on_host_of_rank_0()) co_return;
  std::vector<std::string> keys(1, address_for_other_hosts);
  std::vector<std::string> found =
      co_await store_client::get(client, std::move(keys), options.meet_timeout);
  if (!found.front().empty()) client->set_local_address(std::move(found.front()));
}

std::shared_ptr<const trust::credentials> load_credentials(const launch_info& who,
                                                           const settings& options) {
  try {
    return trust::credentials::load(options, who.job);
  } catch (const error& e) {
    error_context outer;
    outer.rank = who.rank;
    throw with_context(e, outer);
  }
}

/// Descriptors: one to the store; on rank 0 also a listening one, and one for each rank.
void reserve_descriptors_for(const launch_info& who) {
  const auto served = who.is_server() ? static_cast<std::uint64_t>(who.size) + 1 : 0;
  const std::string name = fmt::format("rank {} of {}{}", who.rank, who.size,
                                       who.is_server() ? ", which serves the store," : "");
  detail::reserve_descriptors({name, served + 1, served + 1});
}

/// A fresh key for this incarnation of the job.
secret make_data_key() {
  trust::digest bytes;
  trust::random_bytes(bytes);
  secret key{std::span<const std::byte>(bytes)};
  wipe(bytes);
  return key;
}

// By value: the caller's objects may be gone when the coroutine starts.
asio::awaitable<std::shared_ptr<store>> meet(launch_info who, settings options) {
  check(who);
  who.address = parse_host("rank 0's address", who.address);
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  detail::require_own_context(executor);
  const time_point until = std::chrono::steady_clock::now() + options.meet_timeout;
  detail::set_driver_timeout(options.meet_timeout);
  reserve_descriptors_for(who);
  const std::shared_ptr<const trust::credentials> trust = load_credentials(who, options);
  const bool is_open = options.insecure || trust;
  std::vector<asio::ip::address> found = co_await resolve(executor, who, options, until);
  const host_facts known = facts_of(who, is_open, std::move(found));
  const auto allowed = add_rank_to_error(who, [&known] { return allowed_addresses(known); });
  std::shared_ptr<store_server> server;
  if (who.is_server()) {
    const listen_address at =
        add_rank_to_error(who, [&known] { return choose_listen_address(known, is_local_address); });
    store_core::parameters parameters;
    parameters.size = who.size;
    parameters.server_rank = who.rank;
    parameters.job = who.job;
    parameters.where = endpoint_text(who.address, who.port);
    parameters.listen_text = at.text;
    parameters.meet_timeout = options.meet_timeout;
    parameters.meet_by = until;
    if (trust) parameters.data_key = make_data_key();
    log(log_level::debug, "rendezvous", "rank 0 listens on " + at.text);
    server = store_server::listen(executor, at.at, std::move(parameters), trust);
  }
  auto client = std::make_shared<store_client>(executor, who, options, trust);
  // From here on the destructor closes everything after a failure.
  auto joined = std::make_shared<joined_store>(client, server);
  server_addresses where(executor, who, is_open, with_port(allowed, who.port));
  co_await connect_until_accepted(client, std::move(where), options, until);
  co_await store_client::wait_for_all(client, until);
  co_await find_address_for_other_hosts(client, options);
  co_return joined;
}

}  // namespace
}  // namespace rendezvous

asio::awaitable<std::shared_ptr<store>> store::meet(const launch_info& who,
                                                    const settings& options) {
  return rendezvous::meet(who, options);
}

}  // namespace tandem
