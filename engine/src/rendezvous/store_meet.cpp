#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/deadline.hpp>
#include <tandem/detail/descriptor_budget.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/log.hpp>
#include <tandem/store.hpp>
#include <tandem/trust.hpp>
#include <utility>
#include <vector>

#include "rendezvous/store_client.hpp"
#include "rendezvous/store_server.hpp"

namespace tandem {
namespace rendezvous {
namespace {

using time_point = std::chrono::steady_clock::time_point;
using endpoints = std::vector<tcp::endpoint>;
constexpr std::chrono::milliseconds first_pause{10};
constexpr std::chrono::milliseconds longest_pause{250};
/// An address that swallows packets must not use up the time in which another one might answer.
constexpr std::chrono::milliseconds longest_connect{3'000};
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
      // Rank 0's process may end next, before it would read its own connection.
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
      log(log_level::error, "rendezvous", e.what());
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
              fmt::format("rank {} of {} at '{}' port {} is no place in a job", who.rank, who.size,
                          who.address, who.port),
              "ranks count from 0 to size - 1, and the store needs an address and a port");
}

/// A look-up cannot be cancelled, so it may outlive the coroutine that asked for it.
struct lookup {
  explicit lookup(const asio::any_io_executor& executor) : resolver(executor), done(executor) {}
  tcp::resolver resolver;
  asio::steady_timer done;
  error_code failed = asio::error::would_block;
  endpoints found;
};

asio::awaitable<std::shared_ptr<lookup>> look_up(asio::any_io_executor executor, std::string host,
                                                 std::uint16_t port, time_point until) {
  const auto state = std::make_shared<lookup>(executor);
  state->done.expires_at(until);
  const auto keep = [state](const error_code& failed, const tcp::resolver::results_type& results) {
    state->failed = failed;
    for (const auto& entry : results) state->found.push_back(entry.endpoint());
    state->done.cancel();
  };
  detail::start_threads(fmt::format("no thread to look up host '{}' with", host), [&] {
    state->resolver.async_resolve(host, std::to_string(port), tcp::resolver::numeric_service, keep);
  });
  error_code ignored;
  co_await state->done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  co_return state;
}

asio::awaitable<void> pause(std::chrono::milliseconds time, time_point until) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, std::min(std::chrono::steady_clock::now() + time, until));
  co_await timer.async_wait(asio::use_awaitable);
}

/// A name may appear later, as that of a container that still starts: keep asking until the
/// deadline.
asio::awaitable<endpoints> resolve(asio::any_io_executor executor, launch_info who,
                                   settings options, time_point until) {
  error_code no_number;
  const asio::ip::address address = asio::ip::make_address(who.address, no_number);
  if (!no_number) {
    endpoints one(1, tcp::endpoint(address, who.port));
    co_return one;
  }
  for (bool first = true;; first = false) {
    const std::shared_ptr<lookup> answer = co_await look_up(executor, who.address, who.port, until);
    if (!answer->failed && !answer->found.empty()) co_return answer->found;
    const std::string why =
        answer->failed == asio::error::would_block ? "no answer" : answer->failed.message();
    if (std::chrono::steady_clock::now() >= until) {
      fail(who, errc::unreachable,
           fmt::format("host '{}' has no address: {} within {:g} s", who.address, why,
                       seconds(options.meet_timeout)),
           check_address);
    }
    if (first) {
      log(log_level::warning, "rendezvous",
          fmt::format("host '{}' has no address yet ({}); trying again", who.address, why));
    }
    co_await pause(longest_pause, until);
  }
}

/// Without a secret, only this machine may talk to the store.
endpoints allowed(endpoints all, const launch_info& who, bool is_open) {
  if (is_open) return all;
  std::erase_if(all, [](const tcp::endpoint& e) { return !e.address().is_loopback(); });
  if (all.empty()) {
    fail(who, errc::bad_input,
         fmt::format("the store at {} would be open to the network without a secret",
                     show(who.address, who.port)),
         "give every rank a secret (TANDEM_SECRET_FILE), use 127.0.0.1 where all ranks run on one "
         "machine, or set TANDEM_INSECURE=1 in a network you trust");
  }
  return all;
}

asio::awaitable<void> connect_once(tcp::socket& socket, tcp::endpoint to) {
  error_code unopened;
  detail::open(socket, to.protocol(), unopened);
  if (unopened) throw boost::system::system_error(unopened);
  // While nobody listens on a port that Linux may also give to this end, the kernel can connect the
  // socket to itself: it must not keep rank 0 from listening there, and is no answer.
  socket.set_option(tcp::socket::reuse_address(true));
  co_await socket.async_connect(to, asio::use_awaitable);
  if (socket.local_endpoint() == socket.remote_endpoint()) {
    throw boost::system::system_error(asio::error::connection_refused);
  }
}

/// Empty when connected, else why not.
asio::awaitable<std::string> connect(tcp::socket& socket, tcp::endpoint to, time_point until) {
  using duration = std::chrono::steady_clock::duration;
  const duration left = until - std::chrono::steady_clock::now();
  const duration limit = std::clamp<duration>(left, first_pause, longest_connect);
  std::string why;
  try {
    co_await with_deadline(limit, connect_once(socket, to), "connect");
  } catch (const boost::system::system_error& failed) {
    if (detail::is_exhausted(failed.code(), detail::resource::descriptor)) {
      throw detail::exhausted(failed.code().value(), detail::resource::descriptor,
                              "no socket to rank 0's store");
    }
    why = failed.code().message();
  }
  co_return why;
}

/// Until rank 0 has accepted this rank.
asio::awaitable<void> knock(std::shared_ptr<store_client> client, endpoints all, settings options,
                            time_point until) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::string refused = "no answer";
  std::chrono::milliseconds wait = first_pause;
  while (std::chrono::steady_clock::now() < until) {
    for (const tcp::endpoint& to : all) {
      tcp::socket socket(executor);
      refused = co_await connect(socket, to, until);
      if (!refused.empty()) continue;
      const bool accepted = co_await store_client::greet(client, std::move(socket), until);
      if (accepted) co_return;
    }
    co_await pause(wait, until);
    wait = std::min(2 * wait, longest_pause);
  }
  const double limit_s = seconds(options.meet_timeout);
  if (refused.empty()) {
    fail(client->who(), errc::not_tandem,
         fmt::format("{} {} for {:g} s", client->where(), client->trouble(), limit_s),
         "another program may own this port, or rank 0 is stopped");
  }
  fail(client->who(), errc::unreachable,
       fmt::format("nobody answered at {} within {:g} s ({})", client->where(), limit_s, refused),
       std::string("is rank 0 running? ") + check_address);
}

std::shared_ptr<const trust::credentials> find_trust(const launch_info& who,
                                                     const settings& options) {
  try {
    return trust::credentials::load(options, who.job);
  } catch (const error& e) {
    error_context outer;
    outer.rank = who.rank;
    throw with_context(e, outer);
  }
}

/// A connection to the store; rank 0 also has one to listen and the other end of everybody's.
void reserve_for(const launch_info& who) {
  const auto served = who.rank == 0 ? static_cast<std::uint64_t>(who.size) + 1 : 0;
  const std::string name = fmt::format("rank {} of {}{}", who.rank, who.size,
                                       who.rank == 0 ? ", which serves the store," : "");
  detail::reserve_descriptors({name, served + 1, served + 1});
}

/// Of this life of the job only.
secret make_data_key() {
  trust::digest bytes;
  trust::random_bytes(bytes);
  secret key{std::span<const std::byte>(bytes)};
  wipe(bytes);
  return key;
}

// A coroutine takes them by value: the caller's may be gone when it starts.
asio::awaitable<std::shared_ptr<store>> meet(launch_info who, settings options) {
  check(who);
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  detail::require_own_context(executor);
  const time_point until = std::chrono::steady_clock::now() + options.meet_timeout;
  reserve_for(who);
  const std::shared_ptr<const trust::credentials> trust = find_trust(who, options);
  endpoints found = co_await resolve(executor, who, options, until);
  const endpoints all = allowed(std::move(found), who, options.insecure || trust);
  std::shared_ptr<store_server> server;
  if (who.rank == 0) {
    store_core::plan plan;
    plan.size = who.size;
    plan.job = who.job;
    plan.where = show(who.address, who.port);
    plan.meet_timeout = options.meet_timeout;
    plan.meet_by = until;
    if (trust) plan.data_key = make_data_key();
    server = store_server::listen(executor, all.front(), std::move(plan), trust);
  }
  auto client = std::make_shared<store_client>(executor, who, options, trust);
  // From here on its destructor closes what a failure leaves open.
  auto joined = std::make_shared<joined_store>(client, server);
  co_await knock(client, all, options, until);
  co_await store_client::wait_for_all(client, until);
  co_return joined;
}

}  // namespace
}  // namespace rendezvous

asio::awaitable<std::shared_ptr<store>> store::meet(const launch_info& who,
                                                    const settings& options) {
  return rendezvous::meet(who, options);
}

}  // namespace tandem
