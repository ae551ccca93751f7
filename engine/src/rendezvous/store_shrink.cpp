// The ranks that survive a loss meet again.
//
// Each rank tries those below it in order. A process that is gone refuses the connection; the first
// that does not is the lowest rank left, which serves the new store. It waits for all other ranks,
// looking meanwhile for those that are gone, and then tells all who is left.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/detail/connect_failure.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "rendezvous/joined_store.hpp"
#include "rendezvous/store_connect.hpp"

namespace tandem::rendezvous {
namespace {

using time_point = std::chrono::steady_clock::time_point;

/// How often the serving rank looks for absent ones. Their process may end at any time.
constexpr std::chrono::milliseconds max_probe_interval{250};
constexpr std::chrono::milliseconds probe_limit{1'000};

[[noreturn]] void fail(const shrinking_job& from, int peer, errc code, std::string detail,
                       std::string advice) {
  error_context c;
  c.rank = from.before.rank;
  c.peer = peer;
  c.phase = "shrink";
  c.detail = std::move(detail);
  c.advice = std::move(advice);
  throw error(make_error_code(code), std::move(c));
}

launch_info at(const shrinking_job& from, int rank) {
  const tcp::endpoint& where = from.where.all.at(static_cast<std::size_t>(rank));
  launch_info who = from.before;
  who.job = from.next.name();
  who.address = where.address().to_string();
  who.port = where.port();
  who.serves_store = rank == who.rank;
  return who;
}

/// Tells the server which absent ranks are gone, until all others have joined.
asio::awaitable<void> find_the_gone(std::shared_ptr<store_server> server,
                                    std::vector<tcp::endpoint> all) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor);
  std::chrono::milliseconds interval = first_backoff;
  while (server->is_meeting()) {
    timer.expires_after(interval);
    interval = std::min(2 * interval, max_probe_interval);
    co_await timer.async_wait(asio::use_awaitable);
    const std::vector<int> absent = server->absent();
    for (const int rank : absent) {
      if (!server->is_meeting()) co_return;
      tcp::socket socket(executor);
      detail::connect_tries tries;
      const time_point until = std::chrono::steady_clock::now() + probe_limit;
      const error_code why =
          co_await connect(socket, all[static_cast<std::size_t>(rank)], until, tries);
      if (why == asio::error::connection_refused) server->unreachable(rank);
    }
  }
}

asio::awaitable<void> wait_for_others(const shrinking_job& from, int serving,
                                      std::shared_ptr<store_client> client, time_point until) {
  std::optional<error> failed;
  try {
    co_await store_client::wait_for_all(client, until);
  } catch (const error& e) {
    failed = e;
  }
  if (!failed) co_return;
  if (failed->code() == errc::peer_lost && serving != from.before.rank) {
    fail(from, serving, errc::peer_lost,
         fmt::format("rank {}, the lowest one left, was lost while the others met there", serving),
         "restart the job");
  }
  throw error(*failed);
}

/// Null: that rank is gone.
asio::awaitable<std::shared_ptr<joined_store>> join_at(
    const shrinking_job& from, std::uint16_t port, int serving,
    std::shared_ptr<const trust::credentials> trust, time_point until) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const tcp::endpoint where = from.where.all[static_cast<std::size_t>(serving)];
  tcp::socket socket(executor);
  detail::connect_tries tries;
  const error_code refused = co_await connect(socket, where, until, tries);
  if (refused) {
    log(log_level::info, "rendezvous",
        fmt::format("rank {} is gone ({}): {}", serving, endpoint_text(where), refused.message()));
    co_return nullptr;
  }
  auto client = std::make_shared<store_client>(executor, at(from, serving), from.options, trust);
  client->set_meeting_port(port);
  auto joined = std::make_shared<joined_store>(client, nullptr, from.options, from.next);
  const bool accepted = co_await store_client::handshake(client, std::move(socket), until);
  if (!accepted && std::chrono::steady_clock::now() < until) co_return nullptr;
  if (!accepted) {
    fail(from, serving, errc::timed_out,
         fmt::format("rank {} did not shrink the job within {}", serving,
                     detail::to_text(from.options.meet_timeout)),
         "every rank that is left has to call shrink");
  }
  co_await wait_for_others(from, serving, client, until);
  co_return joined;
}

asio::awaitable<std::shared_ptr<joined_store>> serve(
    shrinking_job& from, std::uint16_t port, std::shared_ptr<const trust::credentials> trust,
    time_point until) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const launch_info who = at(from, from.before.rank);
  store_core::parameters parameters;
  parameters.size = who.size;
  parameters.server_rank = who.rank;
  parameters.job = who.job;
  parameters.where = endpoint_text(who.address, who.port);
  parameters.meet_timeout = from.options.meet_timeout;
  parameters.meet_by = until;
  parameters.min_survivors = static_cast<int>(from.options.min_survivors);
  parameters.lost_rank = from.lost_rank;
  if (trust) parameters.data_key = make_data_key();
  auto server = store_server::serve(std::move(from.where.own), std::move(parameters), trust);
  auto client = std::make_shared<store_client>(executor, who, from.options, trust);
  client->set_meeting_port(port);
  auto joined = std::make_shared<joined_store>(client, server, from.options, from.next);
  tcp::socket socket(executor);
  detail::connect_tries tries;
  const tcp::endpoint own = from.where.all[static_cast<std::size_t>(who.rank)];
  const error_code refused = co_await connect(socket, own, until, tries);
  if (refused) throw boost::system::system_error(refused, endpoint_text(own));
  const bool accepted = co_await store_client::handshake(client, std::move(socket), until);
  if (!accepted) {
    fail(from, who.rank, errc::timed_out,
         fmt::format("this rank's own store at {} {}", endpoint_text(own),
                     client->handshake_failure()),
         "is this rank stopped, or very busy?");
  }
  asio::co_spawn(executor, find_the_gone(server, from.where.all), asio::detached);
  co_await wait_for_others(from, who.rank, client, until);
  co_return joined;
}

}  // namespace

asio::awaitable<std::shared_ptr<store>> meet_again(shrinking_job from) {
  const time_point until = std::chrono::steady_clock::now() + from.options.meet_timeout;
  launch_info next = from.before;
  next.job = from.next.name();
  const std::shared_ptr<const trust::credentials> trust = load_credentials(next, from.options);
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  // The addresses stay as they are, so that the meeting itself can distribute the next ports: had
  // the ranks to ask for them afterwards, a loss meanwhile could not be survived.
  const std::vector<tcp::endpoint>& before = from.where.all;
  const auto own = static_cast<std::size_t>(from.before.rank);
  meeting_points next_points{listen_for_survivors(executor, before[own].address()), {}};
  const std::uint16_t port = next_points.own.local_endpoint().port();
  std::shared_ptr<joined_store> joined;
  for (int rank = 0; rank < from.before.rank && !joined; ++rank) {
    if (rank != from.lost_rank) joined = co_await join_at(from, port, rank, trust, until);
  }
  if (!joined) joined = co_await serve(from, port, trust, until);
  joined->meet_next_at(std::move(next_points), before);
  log(log_level::info, "rendezvous",
      fmt::format("rank {} of {} is rank {} of the {} that are left", from.before.rank,
                  from.before.size, joined->who().rank, joined->who().size));
  co_return joined;
}

}  // namespace tandem::rendezvous
