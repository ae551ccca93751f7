#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <tandem/detail/name_lookup.hpp>
#include <tandem/error.hpp>
#include <tandem/launch.hpp>
#include <vector>

namespace tandem::rendezvous {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using endpoints = std::vector<tcp::endpoint>;

endpoints with_port(const std::vector<asio::ip::address>& all, std::uint16_t port);

/// The addresses that a rank connects to. A name is resolved repeatedly meanwhile: its address may
/// change, or the first answer may have come from a name server that did not know it yet.
class server_addresses {
 public:
  /// @param is_open  ranks of other hosts may join: addresses beyond loopback are used.
  server_addresses(asio::any_io_executor executor, launch_info who, bool is_open, endpoints first);

  const endpoints& all() const noexcept { return all_; }
  /// Never blocks: starts a look-up once a second, and takes over a finished one.
  void refresh();
  /// Whether the name, which is not "localhost", resolves to loopback only.
  bool is_own_host_only() const;

 private:
  void apply(detail::name_addresses answer);

  asio::any_io_executor executor_;
  launch_info who_;
  bool is_open_;
  bool is_name_;
  endpoints all_;
  std::unique_ptr<detail::name_lookup> pending_lookup_;
  std::chrono::steady_clock::time_point next_lookup_;
};

}  // namespace tandem::rendezvous
