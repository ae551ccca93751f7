#pragma once

#include <boost/asio/ip/address.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transports/rails/verbs/ports.hpp"

namespace tandem::verbs {

namespace asio = boost::asio;

/// The network interface that a GID has to belong to.
struct gid_requirement {
  std::string interface;                     ///< its name, for messages
  int interface_index = 0;                   ///< 0: any
  std::vector<asio::ip::address> addresses;  ///< one of these; empty: any
};

/// The GID selected for a port, or why there is none.
struct gid_choice {
  std::optional<gid_entry> chosen;
  /// "GID 1 (RoCE v2, 10.9.0.1)"; without one: what is wrong, and what to do.
  std::string why;
  /// "GID 0 (RoCE v2, fe80::1): link-local", a line for each other entry; past
  /// `max_gids_left_out` of them one line that counts the rest.
  std::vector<std::string> left_out;
};

constexpr std::size_t max_gids_left_out = 8;

/// InfiniBand: the first non-zero entry, which is index 0 on a port configured by a subnet manager.
/// Ethernet: RoCE v2 on the interface of `requirement`, with one of its addresses, IPv4 before IPv6
/// as NCCL does, then in the order of those addresses; never link-local, unspecified or multicast.
/// A port that is not active has none.
gid_choice choose_gid(const port& of, const gid_requirement& requirement = {});

/// The address in a GID of RoCE v2: `::ffff:10.9.0.1` is IPv4.
asio::ip::address address_of(const gid_bytes& gid);

/// True where every byte is zero.
bool is_empty(const gid_bytes& gid) noexcept;

/// "InfiniBand", "RoCE v1", "RoCE v2".
std::string_view name(gid_kind kind) noexcept;

/// "rxe0 port 1".
std::string name(const port& of);

/// "GID 1 (RoCE v2, 10.9.0.1)".
std::string describe(const gid_entry& entry);

}  // namespace tandem::verbs
