#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tandem/error.hpp>

#include "transports/rails/nic/pairing.hpp"
#include "transports/rails/nic/rail_spec.hpp"

namespace tandem::rails {
namespace {

constexpr std::string_view start = "rails ";
constexpr std::string_view text_version = "1";
constexpr std::size_t max_name_bytes = 15;  // IFNAMSIZ without the terminating zero

bool plain(char c) {
  return c > ' ' && c < 0x7f && c != '=' && c != '+';
}

[[noreturn]] void refuse(std::string_view what) {
  throw error(errc::protocol_violation, fmt::format("the published rails of a rank: {}", what),
              "all ranks must run the same Tandem");
}

/// Removes the text before `sign`, and the sign, from `rest` and returns the text; all of it where
/// there is no sign.
std::string_view cut(std::string_view& rest, char sign) {
  const std::size_t at = rest.find(sign);
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + 1);
  return part;
}

unsigned read_number(std::string_view text, unsigned max_value) {
  unsigned value = 0;
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || failed != std::errc() || rest != text.data() + text.size() ||
      value > max_value) {
    refuse("invalid number");
  }
  return value;
}

listen_endpoint read_endpoint(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::size_t colon = text.rfind(':');
  if (slash == std::string_view::npos || colon == std::string_view::npos || colon < slash) {
    refuse("listen address without prefix length or port");
  }
  // With a zone the address would refer to an interface of this machine.
  if (text.find('%') != std::string_view::npos) refuse("link-local address");
  listen_endpoint found;
  boost::system::error_code failure;
  found.where = asio::ip::make_address(std::string(text.substr(0, slash)), failure);
  if (failure) refuse("invalid address");
  found.prefix =
      read_number(text.substr(slash + 1, colon - slash - 1), found.where.is_v4() ? 32 : 128);
  std::string_view ports = text.substr(colon + 1);
  const bool has_rdma = ports.find('~') != std::string_view::npos;
  found.port = static_cast<std::uint16_t>(read_number(cut(ports, '~'), 65535));
  if (has_rdma) {
    found.rdma_port = static_cast<std::uint16_t>(read_number(ports, 65535));
    if (found.rdma_port == 0) refuse("invalid listen address");
  }
  if (found.port == 0 || found.where.is_unspecified() || found.where.is_multicast()) {
    refuse("invalid listen address");
  }
  return found;
}

published_rail read_rail(std::string_view text) {
  if (text.find('=') == std::string_view::npos) refuse("rail without listen addresses");
  published_rail found;
  const std::string_view interface = cut(text, '=');
  const bool good = !interface.empty() && interface.size() <= max_name_bytes &&
                    std::all_of(interface.begin(), interface.end(), plain);
  if (!good) refuse("invalid interface name");
  found.interface = interface;
  do {
    if (found.endpoints.size() == max_endpoints) refuse("too many listen addresses for one rail");
    found.endpoints.push_back(read_endpoint(cut(text, '+')));
  } while (!text.empty());
  return found;
}

}  // namespace

std::string encode(const std::vector<published_rail>& rails) {
  std::string line = fmt::format("{}{}", start, text_version);
  std::size_t written = 0;
  for (const published_rail& one : rails) {
    if (one.endpoints.empty()) continue;
    if (++written > max_rails) break;
    line += ' ';
    for (const char c : one.interface.substr(0, max_name_bytes)) line += plain(c) ? c : '?';
    for (std::size_t i = 0; i < std::min(one.endpoints.size(), max_endpoints); ++i) {
      const listen_endpoint& d = one.endpoints[i];
      line += fmt::format("{}{}/{}:{}", i == 0 ? '=' : '+', d.where.to_string(), d.prefix, d.port);
      if (d.rdma_port != 0) line += fmt::format("~{}", d.rdma_port);
    }
  }
  return line;
}

std::vector<published_rail> decode(std::string_view line) {
  if (line.size() > max_published_bytes) refuse("line too long");
  if (!line.starts_with(start)) refuse("wrong prefix");
  line.remove_prefix(start.size());
  const std::string_view remote = cut(line, ' ');
  if (remote != text_version) {
    read_number(remote, 65535);
    throw error(errc::version_mismatch,
                fmt::format("a rank publishes rails of version {}, not {}", remote, text_version),
                "all ranks must run the same Tandem");
  }
  std::vector<published_rail> found;
  while (!line.empty()) {
    if (found.size() == max_rails) refuse("too many rails for one rank");
    found.push_back(read_rail(cut(line, ' ')));
  }
  return found;
}

}  // namespace tandem::rails
