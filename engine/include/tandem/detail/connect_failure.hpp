// Not for users: what the engine and the rooms on it share.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <string>
#include <tandem/error.hpp>
#include <utility>
#include <vector>

namespace tandem::detail {

/// "10.0.0.1:29500", "[::1]:29500".
std::string to_text(const boost::asio::ip::tcp::endpoint& where);

/// "32768 to 60999": net.ipv4.ip_local_port_range of this network namespace, from which the kernel
/// takes the ports of connections, and of ranks that listen.
std::string ephemeral_ports();

/// What was tried at each address, for the error of one who could connect to none of them. A later
/// try of an address replaces the earlier one.
class connect_tries {
 public:
  using endpoint = boost::asio::ip::tcp::endpoint;

  /// @param limit  how long the try lasted at most; it counts where `why` is a time-out.
  void failed(const endpoint& to, const error_code& why, std::chrono::nanoseconds limit);
  /// The same with the cause in words, where connecting was not what failed.
  void failed(const endpoint& to, std::string why);
  bool empty() const noexcept { return tries_.empty(); }
  /// "10.0.0.1:29500: connection refused (nobody listens there), [::1]:29500: ...".
  std::string text() const;
  /// What to look at, by the cause that says most; `otherwise` where it is that nobody listens.
  /// @param from  this end, as "rank 1"; `to`: the other, as "rank 0".
  std::string advice(const std::string& from, const std::string& to,
                     const std::string& otherwise) const;

 private:
  struct attempt {
    endpoint to;
    error_code why;  ///< none where only `text` says it
    std::string text;
  };
  const attempt* find(const error_code& why) const;

  std::vector<attempt> tries_;
};

/// The cause in words: "connection refused (nobody listens there)", "no answer within 3 s".
std::string why_not_connected(const boost::asio::ip::tcp::endpoint& to, const error_code& why,
                              std::chrono::nanoseconds limit);

/// What to do where packets of a connection get lost between two ends.
std::string firewall_advice(const std::string& from, const std::string& to, std::uint16_t port);

/// "Connection timed out: its host is down, ..." where packets of an established connection got
/// lost; empty for another end of it.
std::string lost_packets_text(const error_code& why);

/// No port is left for a socket that binds to any: what is said of a listener and of a connection.
error no_port_left(const std::string& what);

}  // namespace tandem::detail
