#include "rendezvous/listen_address.hpp"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tandem/detail/name_lookup.hpp>
#include <tandem/error.hpp>
#include <utility>

#include "rendezvous/host_text.hpp"
#include "rendezvous/store_connection.hpp"

namespace tandem::rendezvous {
namespace {

namespace ip = boost::asio::ip;
using addresses = std::vector<ip::address>;

constexpr auto how_to_open =
    "give every rank a secret (TANDEM_SECRET_FILE), use 127.0.0.1 where all ranks run on one "
    "machine, or set TANDEM_INSECURE=1 in a network you trust";

addresses loopback_of(const addresses& all) {
  addresses some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some),
               [](const ip::address& a) { return a.is_loopback(); });
  return some;
}

/// IPv4 first: every host has an IPv4 loopback.
ip::address preferred(const addresses& all) {
  const auto v4 = std::find_if(all.begin(), all.end(), [](const auto& a) { return a.is_v4(); });
  return v4 == all.end() ? all.front() : *v4;
}

ip::address any_interface_address(const std::function<bool(const ip::address&)>& is_here) {
  const ip::address both = ip::address_v6::any();
  return is_here(both) ? both : ip::address(ip::address_v4::any());
}

bool resolves_to_loopback_only(const host_facts& known) {
  return !is_loopback_host(known.host) &&
         loopback_of(known.resolved).size() == known.resolved.size();
}

}  // namespace

host_facts facts_of(const launch_info& who, bool is_open, addresses resolved) {
  host_facts known;
  known.host = who.address;
  known.port = who.port;
  known.resolved = std::move(resolved);
  known.spans_hosts = who.local_size_known && who.local_size < who.size;
  known.is_one_host = who.size == 1 || (who.local_size_known && who.local_size == who.size);
  known.is_open = is_open;
  return known;
}

addresses allowed_addresses(const host_facts& known) {
  if (known.is_open) return known.resolved;
  addresses here = loopback_of(known.resolved);
  const std::string where = endpoint_text(known.host, known.port);
  if (here.empty()) {
    const bool is_name = !detail::numeric_address(known.host);
    throw error(errc::bad_input,
                fmt::format("the store at {}{} would be open to the network without a secret",
                            where, is_name ? fmt::format(" ({})", list(known.resolved)) : ""),
                how_to_open);
  }
  if (known.spans_hosts && !is_loopback_host(known.host)) {
    throw error(errc::bad_input,
                fmt::format("'{}' resolves to {} here: without a secret rank 0 may listen on "
                            "loopback only, which ranks of other hosts cannot reach",
                            known.host, list(known.resolved)),
                fmt::format("{} (/etc/hosts often maps the name of a host itself to 127.0.1.1)",
                            how_to_open));
  }
  return here;
}

listen_address choose_listen_address(const host_facts& known,
                                     const std::function<bool(const ip::address&)>& is_here) {
  const auto at = [&known](const ip::address& address, const std::string& note) {
    const boost::asio::ip::tcp::endpoint where(address, known.port);
    return listen_address{where, note.empty() ? endpoint_text(where)
                                              : fmt::format("{} ({})", endpoint_text(where), note)};
  };
  const addresses allowed = allowed_addresses(known);
  if (detail::numeric_address(known.host)) {
    const bool loopback = allowed.front().is_loopback();
    return at(allowed.front(), loopback ? "loopback: ranks of this host only" : "");
  }
  const std::string name = fmt::format("'{}' resolves to {}", known.host, list(known.resolved));
  addresses here;
  std::copy_if(allowed.begin(), allowed.end(), std::back_inserter(here), is_here);
  if (here.empty()) {
    throw error(
        errc::bad_input,
        fmt::format("rank 0 cannot listen on {}: {}, and no interface of this host has that "
                    "address (it has {})",
                    endpoint_text(known.host, known.port), name, local_addresses_text()),
        "start rank 0 on that host, or give an address of rank 0's own machine "
        "(TANDEM_RENDEZVOUS or MASTER_ADDR)");
  }
  const bool only_loopback = loopback_of(here).size() == here.size();
  const bool may_use_loopback = !known.is_open || known.is_one_host || is_loopback_host(known.host);
  if (only_loopback && may_use_loopback) {
    return at(preferred(here), fmt::format("loopback: ranks of this host only; {}", name));
  }
  if (resolves_to_loopback_only(known) || known.resolved.size() > 1) {
    return at(any_interface_address(is_here), fmt::format("all interfaces; {}", name));
  }
  return at(here.front(), name);
}

bool is_local_address(const ip::address& address) {
  const boost::asio::ip::tcp::endpoint any_port(address, 0);
  const int probe = ::socket(any_port.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return errno != EAFNOSUPPORT;
  const int failed = ::bind(probe, any_port.data(), static_cast<socklen_t>(any_port.size()));
  const int why = failed == 0 ? 0 : errno;
  ::close(probe);
  return why != EADDRNOTAVAIL && why != EINVAL && why != ENODEV;
}

std::string local_addresses_text() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "unknown addresses";
  std::string text;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const bool v4 = one->ifa_addr->sa_family == AF_INET;
    if (!v4 && one->ifa_addr->sa_family != AF_INET6) continue;
    boost::asio::ip::tcp::endpoint where;
    const std::size_t bytes = v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    where.resize(bytes);
    std::copy_n(reinterpret_cast<const char*>(one->ifa_addr), bytes,
                reinterpret_cast<char*>(where.data()));
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", where.address().to_string(),
                        one->ifa_name);
  }
  ::freeifaddrs(all);
  return text;
}

std::string list(const addresses& all) {
  std::string text;
  for (const ip::address& one : all) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", one.to_string());
  }
  return text;
}

}  // namespace tandem::rendezvous
