#include "rendezvous/server_addresses.hpp"

#include <algorithm>
#include <tandem/detail/name_lookup.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "rendezvous/host_text.hpp"
#include "rendezvous/listen_address.hpp"

namespace tandem::rendezvous {
namespace {

constexpr std::chrono::milliseconds lookup_interval{1'000};

}  // namespace

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
      is_name_(!detail::numeric_address(who_.address)),
      all_(std::move(first)),
      next_lookup_(std::chrono::steady_clock::now() + lookup_interval) {}

void server_addresses::refresh() {
  const auto now = std::chrono::steady_clock::now();
  if (!is_name_ || now < next_lookup_) return;
  if (!pending_lookup_) {
    pending_lookup_ = std::make_unique<detail::name_lookup>(executor_, who_.address);
  } else if (std::optional<detail::name_addresses> answer = pending_lookup_->answer()) {
    apply(std::move(*answer));
    pending_lookup_.reset();
    next_lookup_ = now + lookup_interval;
  }
}

void server_addresses::apply(detail::name_addresses answer) {
  if (answer.found.empty()) return;
  try {
    const host_facts known = facts_of(who_, is_open_, std::move(answer.found));
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
