#include "rendezvous/joined_store.hpp"

#include <fmt/format.h>

#include <boost/asio/this_coro.hpp>
#include <tandem/detail/name_lookup.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/log.hpp>
#include <utility>

namespace tandem::rendezvous {
namespace {

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

std::string key_of(int rank) {
  return fmt::format("meeting point/{}", rank);
}

asio::awaitable<meeting_points> exchange_meeting_points(std::shared_ptr<store_client> client,
                                                        settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const launch_info who = client->who();
  const std::optional<asio::ip::address> here = detail::numeric_address(client->local_address());
  meeting_points result{
      listen_for_survivors(executor, here.value_or(asio::ip::address_v4::loopback())), {}};
  const std::uint16_t port = result.own.local_endpoint().port();
  co_await store_client::set(client, key_of(who.rank),
                             fmt::format("{} {}", port, client->local_address()));
  std::vector<std::string> keys;
  for (int rank = 0; rank < who.size; ++rank) keys.push_back(key_of(rank));
  std::vector<std::string> found;
  std::optional<error> missing;
  try {
    found = co_await store_client::get(client, std::move(keys), options.meet_timeout);
  } catch (const error& failed) {
    if (failed.code() != errc::timed_out) throw;
    missing = failed;
  }
  if (missing) {
    error_context outer;
    outer.rank = who.rank;
    outer.detail =
        fmt::format("not every rank has TANDEM_MIN_SURVIVORS: {}", missing->context().detail);
    outer.advice = "set it alike on all ranks";
    throw error(make_error_code(errc::bad_option), std::move(outer));
  }
  for (const std::string& text : found) {
    const std::size_t blank = text.find(' ');
    const std::optional<asio::ip::address> address =
        blank == std::string::npos ? std::nullopt : detail::numeric_address(text.substr(blank + 1));
    if (!address) {
      throw error(errc::protocol_violation, fmt::format("no meeting point: '{}'", printable(text)));
    }
    const auto there = static_cast<std::uint16_t>(std::atoi(text.c_str()));
    result.all.emplace_back(*address, there);
  }
  co_return result;
}

}  // namespace

tcp::acceptor listen_for_survivors(const asio::any_io_executor& executor,
                                   const asio::ip::address& address) {
  tcp::acceptor made(executor);
  error_code failed;
  const tcp::endpoint at(address, 0);
  detail::open(made, at.protocol(), failed);
  if (!failed) made.bind(at, failed);
  if (!failed) made.listen(asio::socket_base::max_listen_connections, failed);
  if (!failed) made.native_non_blocking(true, failed);
  if (!failed) return made;
  if (detail::is_exhausted(failed, detail::resource::descriptor)) {
    throw detail::exhausted(failed.value(), detail::resource::descriptor,
                            "cannot listen for the ranks that survive a loss");
  }
  throw error(errc::bad_input,
              fmt::format("cannot listen at {} for the ranks that survive a loss: {}",
                          address.to_string(), failed.message()));
}

std::string incarnation::name() const {
  return number == 0 ? job : fmt::format("{}+{}", job, number);
}

joined_store::joined_store(std::shared_ptr<store_client> client,
                           std::shared_ptr<store_server> server, settings options,
                           incarnation which)
    : client_(std::move(client)),
      server_(std::move(server)),
      options_(std::move(options)),
      which_(std::move(which)) {}

joined_store::~joined_store() {
  if (!origin_.is_here()) return;
  client_->stop();
  if (server_) server_->stop();
}

asio::awaitable<void> joined_store::complete(std::shared_ptr<joined_store> self) {
  co_await find_address_for_other_hosts(self->client_, self->options_);
  if (self->options_.min_survivors == 0) co_return;
  meeting_points found = co_await exchange_meeting_points(self->client_, self->options_);
  self->meeting_points_ = std::move(found);
}

void joined_store::meet_next_at(meeting_points where, const std::vector<tcp::endpoint>& before) {
  const std::vector<int>& ranks = client_->previous_ranks();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto port = static_cast<std::uint16_t>(client_->meeting_ports()[i]);
    where.all.emplace_back(before.at(static_cast<std::size_t>(ranks[i])).address(), port);
  }
  meeting_points_ = std::move(where);
}

asio::awaitable<void> joined_store::set(std::string key, std::string value) {
  origin_.require_here("this store");
  return store_client::set(client_, std::move(key), std::move(value));
}

asio::awaitable<std::vector<std::string>> joined_store::get(std::vector<std::string> keys,
                                                            std::chrono::milliseconds limit) {
  origin_.require_here("this store");
  return store_client::get(client_, std::move(keys), limit);
}

asio::awaitable<std::int64_t> joined_store::add(std::string key, std::int64_t amount) {
  origin_.require_here("this store");
  return store_client::add(client_, std::move(key), amount);
}

template <class Work>
void joined_store::attempt(Work work) noexcept {
  if (!origin_.is_here()) return;
  try {
    work();
  } catch (const std::exception& e) {
    log(log_level::error, "rendezvous", describe(e));
  }
}

void joined_store::report(const error& reason) noexcept {
  attempt([&] {
    // Rank 0's process may exit next, before it would read its own connection.
    if (server_) {
      server_->report(reason);
    } else {
      client_->report(reason);
    }
  });
}

void joined_store::leave() noexcept {
  attempt([&] {
    // After a loss the others may still look for this rank.
    if (!client_->job_failure()) meeting_points_.reset();
    if (server_) server_->leave();
    client_->leave();
  });
}

asio::awaitable<std::shared_ptr<store>> joined_store::shrink() {
  origin_.require_here("this store");
  const std::optional<error>& failure = client_->job_failure();
  error_context context;
  context.rank = who().rank;
  if (options_.min_survivors == 0) {
    context.detail = "this job cannot go on after a loss";
    context.advice = "start every rank with TANDEM_MIN_SURVIVORS";
    throw error(make_error_code(errc::bad_option), std::move(context));
  }
  if (client_->is_given_up()) {
    context.peer = failure->context().rank;
    context.detail = "the others have given up this rank and go on without it";
    context.advice = "end this rank; to train with it, restart the job";
    throw error(make_error_code(errc::peer_lost), std::move(context));
  }
  if (!meeting_points_) {
    context.detail = "this store was left or shrunk before";
    throw error(make_error_code(errc::bad_input), std::move(context));
  }
  shrinking_job from{
      who(), options_, {which_.job, which_.number + 1}, *std::exchange(meeting_points_, {})};
  const int cause = failure && failure->code() == errc::peer_lost ? failure->context().peer : -1;
  if (cause != who().rank && cause < who().size) from.lost_rank = cause;
  leave();
  return meet_again(std::move(from));
}

}  // namespace tandem::rendezvous
