#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <tandem/error.hpp>
#include <tandem/launch.hpp>
#include <vector>

namespace tandem::rendezvous {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using endpoints = std::vector<tcp::endpoint>;

/// One name resolution. It cannot be cancelled, so it may outlive its requester.
struct lookup {
  explicit lookup(const asio::any_io_executor& executor) : resolver(executor), done(executor) {}
  /// Each address once. Empty while there is no answer, or where it has no address.
  std::vector<asio::ip::address> addresses() const;
  bool is_complete() const noexcept { return failed != asio::error::would_block; }
  std::string why_no_address() const { return is_complete() ? failed.message() : "no answer"; }

  tcp::resolver resolver;
  asio::steady_timer done;
  error_code failed = asio::error::would_block;
  endpoints found;
};

std::shared_ptr<lookup> start_lookup(const asio::any_io_executor& executor, const std::string& host,
                                     std::uint16_t port);
/// The same; completes with the answer, or without one at the deadline.
asio::awaitable<std::shared_ptr<lookup>> lookup_until(asio::any_io_executor executor,
                                                      std::string host, std::uint16_t port,
                                                      std::chrono::steady_clock::time_point until);

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
  void apply_lookup(const lookup& answer);

  asio::any_io_executor executor_;
  launch_info who_;
  bool is_open_;
  bool is_name_;
  endpoints all_;
  std::shared_ptr<lookup> pending_lookup_;
  std::chrono::steady_clock::time_point next_lookup_;
};

}  // namespace tandem::rendezvous
