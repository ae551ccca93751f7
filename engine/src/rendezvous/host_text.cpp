#include "rendezvous/host_text.hpp"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <boost/asio/ip/address_v6.hpp>
#include <cctype>
#include <tandem/detail/name_lookup.hpp>
#include <tandem/error.hpp>

namespace tandem::rendezvous {
namespace {

namespace ip = boost::asio::ip;

[[noreturn]] void refuse(std::string_view variable, std::string_view text, std::string_view why,
                         std::string advice) {
  throw error(errc::bad_input, fmt::format("{}={} {}", variable, text, why), std::move(advice));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

void check_ipv6(std::string_view variable, std::string_view text, const std::string& host) {
  const std::size_t percent = host.find('%');
  error_code failure;
  const ip::address_v6 address = ip::make_address_v6(host.substr(0, percent), failure);
  if (failure) {
    refuse(variable, text, "is not an IPv6 address", "write it as in fe80::1%eth0 or ::1");
  }
  if (percent == std::string::npos) {
    if (!address.is_link_local()) return;
    refuse(variable, text, "is a link-local address without its interface",
           "add it (fe80::1%eth0), or give an address that all hosts can use");
  }
  const std::string zone = host.substr(percent + 1);
  if (is_number(zone) || ::if_nametoindex(zone.c_str()) != 0) return;
  refuse(variable, text, fmt::format("names interface '{}', which this host does not have", zone),
         "a zone is the interface of the host that uses it: ip -6 address lists them");
}

}  // namespace

std::string parse_host(std::string_view variable, std::string_view text) {
  std::string host(trimmed(text));
  const auto set_port = [](std::string_view address, std::string_view port) {
    return fmt::format("give only the host ({}), and its port {} as MASTER_PORT", address, port);
  };
  if (host.empty()) refuse(variable, text, "is empty", "give the host of rank 0");
  if (host.find('/') != std::string::npos) {
    refuse(variable, text, "is a URL or a path, not a host", "give only a name or an address");
  }
  if (host.find_first_of(" \t\r\n") != std::string::npos) {
    refuse(variable, text, "contains a blank", "give one name or address");
  }
  if (host.front() == '[') {
    const std::size_t close = host.find(']');
    if (close == std::string::npos) {
      refuse(variable, text, "has an unclosed bracket", "write [::1] or ::1");
    }
    const std::string rest = host.substr(close + 1);
    const std::string inner = host.substr(1, close - 1);
    if (rest.size() > 1 && rest.front() == ':' && is_number(rest.substr(1))) {
      refuse(variable, text, "contains a port", set_port(inner, rest.substr(1)));
    }
    if (!rest.empty()) refuse(variable, text, "has text after its bracket", "write [::1] or ::1");
    check_ipv6(variable, text, inner);
    return inner;
  }
  const auto colons = std::count(host.begin(), host.end(), ':');
  if (colons == 1) {
    const std::size_t colon = host.find(':');
    refuse(variable, text, "contains a port",
           set_port(host.substr(0, colon), host.substr(colon + 1)));
  }
  if (colons > 1) check_ipv6(variable, text, host);
  return host;
}

bool is_loopback_host(const std::string& host) {
  std::string lower = host;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower.ends_with('.')) lower.pop_back();
  if (lower == "localhost") return true;
  const std::optional<ip::address> address = detail::numeric_address(lower);
  return address && address->is_loopback();
}

}  // namespace tandem::rendezvous
