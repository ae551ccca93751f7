#include "rendezvous/server_addresses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "rendezvous/host_text.hpp"
#include "rendezvous/listen_address.hpp"

namespace tandem::rendezvous {
namespace {

constexpr std::chrono::milliseconds lookup_interval{1'000};

}  // namespace

std::vector<asio::ip::address> lookup::addresses() const {
  std::vector<asio::ip::address> all;
  for (const tcp::endpoint& one : found) {
    const asio::ip::address address = unmapped(one.address());
    if (std::find(all.begin(), all.end(), address) == all.end()) all.push_back(address);
  }
  return all;
}

std::shared_ptr<lookup> start_lookup(const asio::any_io_executor& executor, const std::string& host,
                                     std::uint16_t port) {
  const auto state = std::make_shared<lookup>(executor);
  const auto keep = [state](const error_code& failed, const tcp::resolver::results_type& results) {
    state->failed = failed;
    for (const auto& entry : results) state->found.push_back(entry.endpoint());
    state->done.cancel();
  };
  detail::start_threads(fmt::format("cannot start a thread to resolve host '{}'", host), [&] {
    state->resolver.async_resolve(host, std::to_string(port), tcp::resolver::numeric_service, keep);
  });
  return state;
}

asio::awaitable<std::shared_ptr<lookup>> lookup_until(asio::any_io_executor executor,
                                                      std::string host, std::uint16_t port,
                                                      std::chrono::steady_clock::time_point until) {
  const std::shared_ptr<lookup> state = start_lookup(executor, host, port);
  state->done.expires_at(until);
  error_code ignored;
  co_await state->done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  co_return state;
}

endpoints with_port(const std::vector<asio::ip::address>& all, std::uint16_t port) {
  endpoints some;
  for (const asio::ip::address& one : all) some.emplace_back(one, port);
  return some;
}

server_addresses::server_addresses(asio::any_io_executor executor, launch_info who, bool is_open,
                                   endpoints first)
    : executor_(std::move(executor)),
      who_(std::move(who)),
      is_open_(is_open),
      is_name_(!numeric_address(who_.address)),
      all_(std::move(first)),
      next_lookup_(std::chrono::steady_clock::now() + lookup_interval) {}

void server_addresses::refresh() {
  const auto now = std::chrono::steady_clock::now();
  if (!is_name_ || now < next_lookup_) return;
  if (!pending_lookup_) {
    pending_lookup_ = start_lookup(executor_, who_.address, who_.port);
  } else if (pending_lookup_->is_complete()) {
    apply_lookup(*pending_lookup_);
    pending_lookup_.reset();
    next_lookup_ = now + lookup_interval;
  }
}

void server_addresses::apply_lookup(const lookup& answer) {
  if (answer.found.empty()) return;
  try {
    const host_facts known = facts_of(who_, is_open_, answer.addresses());
    all_ = with_port(allowed_addresses(known), who_.port);
  } catch (const error& refusal) {
    log(log_level::warning, "rendezvous", refusal.what());
  }
}

bool server_addresses::is_own_host_only() const {
  return is_name_ && !is_loopback_host(who_.address) &&
         std::all_of(all_.begin(), all_.end(),
                     [](const tcp::endpoint& e) { return e.address().is_loopback(); });
}

}  // namespace tandem::rendezvous
