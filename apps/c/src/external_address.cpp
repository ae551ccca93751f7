#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <tandem/channels.hpp>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/detail/name_lookup.hpp>
#include <tandem/error.hpp>
#include <vector>

#include "job_state.hpp"

namespace tandem::c {
namespace {

namespace ip = boost::asio::ip;

std::vector<rails::rail_choice> interfaces_of_host(const settings& options) {
  settings without_rdma = options;
  without_rdma.rdma = rdma_use::off;
  without_rdma.rails.clear();
  without_rdma.insecure = true;  // lists only
  return rails::explain_rails(without_rdma);
}

bool is_address_of(const std::vector<rails::rail_choice>& interfaces, const ip::address& which) {
  return std::ranges::any_of(interfaces, [&](const rails::rail_choice& each) {
    return std::ranges::any_of(each.addresses, [&](const std::string& a) {
      return a.substr(0, a.find('/')) == which.to_string();
    });
  });
}

/// The address of this host that MASTER_ADDR names: other hosts are known to reach it.
std::optional<ip::address> master_address(const std::vector<rails::rail_choice>& interfaces,
                                          std::chrono::milliseconds limit) {
  const char* const name = std::getenv("MASTER_ADDR");
  if (name == nullptr) return std::nullopt;
  const auto resolve = [host = std::string(name)] { return detail::resolve_now(host); };
  const std::optional<detail::name_addresses> answer = detail::call_within(limit, resolve);
  if (!answer) {
    throw error(errc::unreachable,
                fmt::format("MASTER_ADDR={}: the resolver has not answered within {}", name,
                            detail::to_text(limit)),
                "check the name servers (/etc/resolv.conf)");
  }
  for (const ip::address& address : answer->found) {
    if (!address.is_loopback() && is_address_of(interfaces, address)) return address;
  }
  return std::nullopt;
}

/// The first usable address, IPv4 before IPv6.
std::optional<ip::address> first_address(
    const std::vector<rails::rail_choice>& interfaces,
    const std::function<bool(const rails::rail_choice&)>& is_chosen) {
  for (const bool v4 : {true, false}) {
    for (const rails::rail_choice& each : interfaces) {
      if (!each.up || !is_chosen(each)) continue;
      for (const std::string& text : each.addresses) {
        error_code failed;
        const ip::address address = ip::make_address(text.substr(0, text.find('/')), failed);
        const bool is_usable = !failed && address.is_v4() == v4 &&
                               !(address.is_v6() && address.to_v6().is_link_local());
        if (is_usable && !text.starts_with("169.254.")) return address;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ip::address> find_external_address(const settings& options) {
  const std::vector<rails::rail_choice> interfaces = interfaces_of_host(options);
  if (const std::optional<ip::address> named = master_address(interfaces, options.meet_timeout))
    return named;
  return first_address(interfaces,
                       [](const rails::rail_choice& each) { return each.kind != "loopback"; });
}

std::optional<ip::address> find_interface_address(
    const settings& options, const std::function<bool(const std::string&)>& is_chosen) {
  return first_address(interfaces_of_host(options),
                       [&](const rails::rail_choice& each) { return is_chosen(each.interface); });
}

}  // namespace tandem::c
