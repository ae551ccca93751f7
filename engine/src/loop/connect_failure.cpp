#include <fmt/format.h>
#include <ifaddrs.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <fstream>
#include <tandem/detail/connect_failure.hpp>
#include <tandem/detail/duration_text.hpp>

namespace tandem::detail {
namespace {

namespace asio = boost::asio;
using boost::system::errc::address_not_available;

bool has_ipv6() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return true;
  bool found = false;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    found = found || (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET6);
  }
  ::freeifaddrs(all);
  return found;
}

bool is_exhausted(const asio::ip::tcp::endpoint& to, const error_code& why) {
  const bool no_address = why == address_not_available;
  return no_address && (to.address().is_v4() || has_ipv6());
}

std::string port_advice() {
  return "widen net.ipv4.ip_local_port_range (sysctl -w net.ipv4.ip_local_port_range='1024 65535'),"
         " or close unused connections";
}

std::string route_advice(const asio::ip::tcp::endpoint& to) {
  return fmt::format("check the routes to it (ip route get {}), and whether a firewall rejects it",
                     to.address().to_string());
}

}  // namespace

std::string to_text(const asio::ip::tcp::endpoint& where) {
  const std::string address = where.address().to_string();
  return fmt::format("{}:{}", where.address().is_v6() ? "[" + address + "]" : address,
                     where.port());
}

std::string ephemeral_ports() {
  unsigned first = 32768, last = 60999;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last;
  return fmt::format("{} to {}", first, last);
}

std::string why_not_connected(const asio::ip::tcp::endpoint& to, const error_code& why,
                              std::chrono::nanoseconds limit) {
  if (why == asio::error::connection_refused) return "connection refused (nothing listens there)";
  if (why == asio::error::timed_out || why == errc::timed_out) {
    return fmt::format("no answer within {}", to_text(limit));
  }
  if (is_exhausted(to, why)) {
    return fmt::format("no local port is free (ephemeral ports exhausted: {})", ephemeral_ports());
  }
  if (why == address_not_available) return "this host has no IPv6 address";
  if (why == boost::system::errc::operation_not_permitted ||
      why == boost::system::errc::permission_denied) {
    return fmt::format("this host forbids it ({}): a rule of its local firewall", why.message());
  }
  return why.message();
}

std::string firewall_advice(const std::string& from, const std::string& to, std::uint16_t port) {
  const std::string which = port != 0 ? fmt::format("TCP port {}", port) : "its TCP ports";
  return fmt::format(
      "a firewall that drops packets between {} and {} is the likely cause: allow {} (ranks "
      "listen on ports {}, net.ipv4.ip_local_port_range, and rank 0 on MASTER_PORT); otherwise its "
      "host is down",
      from, to, which, ephemeral_ports());
}

std::string lost_packets_text(const error_code& why) {
  const bool is_lost = why == asio::error::timed_out || why == asio::error::host_unreachable ||
                       why == asio::error::network_unreachable;
  if (!is_lost) return {};
  return fmt::format("{}: its host is down, or a firewall or a network failure drops packets",
                     why.message());
}

error no_port_left(const std::string& what) {
  return error(errc::limit_exceeded,
               fmt::format("{}: no local port is free (ephemeral ports exhausted: {})", what,
                           ephemeral_ports()),
               port_advice());
}

void connect_tries::failed(const endpoint& to, const error_code& why,
                           std::chrono::nanoseconds limit) {
  failed(to, why_not_connected(to, why, limit));
  for (attempt& one : tries_) {
    if (one.to == to) one.why = why;
  }
}

void connect_tries::failed(const endpoint& to, std::string why) {
  const auto same = std::find_if(tries_.begin(), tries_.end(),
                                 [&to](const attempt& one) { return one.to == to; });
  attempt& one = same == tries_.end() ? tries_.emplace_back() : *same;
  one = attempt{to, {}, std::move(why)};
}

std::string connect_tries::text() const {
  std::string all;
  for (const attempt& one : tries_) {
    all += fmt::format("{}{}: {}", all.empty() ? "" : ", ", to_text(one.to), one.text);
  }
  return all;
}

const connect_tries::attempt* connect_tries::find(const error_code& why) const {
  const auto found = std::find_if(tries_.begin(), tries_.end(),
                                  [&why](const attempt& one) { return one.why == why; });
  return found == tries_.end() ? nullptr : &*found;
}

std::string connect_tries::advice(const std::string& from, const std::string& to,
                                  const std::string& otherwise) const {
  for (const attempt& one : tries_) {
    if (is_exhausted(one.to, one.why)) return port_advice();
  }
  for (const error_code& lost :
       {error_code(asio::error::timed_out), make_error_code(errc::timed_out)}) {
    if (const attempt* one = find(lost)) return firewall_advice(from, to, one->to.port());
  }
  for (const auto rejected : {asio::error::host_unreachable, asio::error::network_unreachable}) {
    if (const attempt* one = find(rejected)) return route_advice(one->to);
  }
  return otherwise;
}

}  // namespace tandem::detail
