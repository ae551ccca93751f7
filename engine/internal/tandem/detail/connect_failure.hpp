// Private: shared by the engine and the modules built on it, not part of the public interface.
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

/// "32768 to 60999": net.ipv4.ip_local_port_range of this network namespace, the kernel's port
/// range for connections and for listening ranks.
std::string ephemeral_ports();

/// The failed connection attempts, by address, for the error after all of them failed. A later
/// attempt at an address replaces the earlier one.
class connect_tries {
 public:
  using endpoint = boost::asio::ip::tcp::endpoint;

  /// @param limit  time limit of the attempt; used if `why` is a timeout.
  void failed(const endpoint& to, const error_code& why, std::chrono::nanoseconds limit);
  /// The same with the cause as text, for failures after the connection was established.
  void failed(const endpoint& to, std::string why);
  bool empty() const noexcept { return tries_.empty(); }
  /// "10.0.0.1:29500: connection refused (nothing listens there), [::1]:29500: ...".
  std::string text() const;
  /// What to check, for the most specific cause; `otherwise` if the ports just had no listener.
  /// @param from  the local end, as "rank 1"; `to`: the remote end, as "rank 0".
  std::string advice(const std::string& from, const std::string& to,
                     const std::string& otherwise) const;

 private:
  struct attempt {
    endpoint to;
    error_code why;  ///< none if only `text` is known
    std::string text;
  };
  const attempt* find(const error_code& why) const;

  std::vector<attempt> tries_;
};

/// The cause as text: "connection refused (nothing listens there)", "no answer within 3 s".
std::string why_not_connected(const boost::asio::ip::tcp::endpoint& to, const error_code& why,
                              std::chrono::nanoseconds limit);

/// What to do if packets between two ends are lost.
std::string firewall_advice(const std::string& from, const std::string& to, std::uint16_t port);

/// "Connection timed out: its host is down, ..." if an established connection failed by packet
/// loss; empty for other failures.
std::string lost_packets_text(const error_code& why);

/// No ephemeral port is left, for a listener or a connection.
error no_port_left(const std::string& what);

}  // namespace tandem::detail
