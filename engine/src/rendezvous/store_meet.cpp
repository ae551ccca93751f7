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
#include "rendezvous/joined_store.hpp"
#include "rendezvous/listen_address.hpp"
#include "rendezvous/server_addresses.hpp"
#include "rendezvous/store_client.hpp"
#include "rendezvous/store_connect.hpp"
#include "rendezvous/store_server.hpp"

namespace tandem {
namespace rendezvous {
namespace {

using time_point = std::chrono::steady_clock::time_point;
constexpr std::chrono::milliseconds max_backoff{250};
constexpr auto check_address =
    "give rank 0's address (TANDEM_RENDEZVOUS, or MASTER_ADDR and "
    "MASTER_PORT)";

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

/// Descriptors: one to the store; on rank 0 also a listening one, and one for each rank; where the
/// job may be shrunk, also two listening ones, for the next meeting and the one after it.
void reserve_descriptors_for(const launch_info& who, const settings& options) {
  const auto served = who.is_server() ? static_cast<std::uint64_t>(who.size) + 1 : 0;
  const std::string name = fmt::format("rank {} of {}{}", who.rank, who.size,
                                       who.is_server() ? ", which serves the store," : "");
  const std::uint64_t own = options.min_survivors > 0 ? 3 : 1;
  detail::reserve_descriptors({name, served + own, served + own});
}

// By value: the caller's objects may be gone when the coroutine starts.
asio::awaitable<std::shared_ptr<store>> meet(launch_info who, settings options) {
  check(who);
  who.address = parse_host("rank 0's address", who.address);
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  detail::require_own_context(executor);
  const time_point until = std::chrono::steady_clock::now() + options.meet_timeout;
  detail::set_driver_timeout(options.meet_timeout);
  reserve_descriptors_for(who, options);
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
  auto joined = std::make_shared<joined_store>(client, server, options, incarnation{who.job});
  server_addresses where(executor, who, is_open, with_port(allowed, who.port));
  co_await connect_until_accepted(client, std::move(where), options, until);
  co_await store_client::wait_for_all(client, until);
  co_await joined_store::complete(joined);
  co_return joined;
}

}  // namespace
}  // namespace rendezvous

// Of stores that are views of another.
asio::awaitable<std::shared_ptr<store>> store::shrink() {
  throw error(errc::bad_input, "this store cannot be shrunk", "use the one that `meet` returned");
}

asio::awaitable<std::shared_ptr<store>> store::meet(const launch_info& who,
                                                    const settings& options) {
  return rendezvous::meet(who, options);
}

}  // namespace tandem
