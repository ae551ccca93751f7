#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/udp.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <tandem/detail/fork.hpp>
#include <tandem/secret.hpp>
#include <vector>

namespace tandem::rails::liveness {

namespace asio = boost::asio;

/// Finds out whether the process of a silent peer runs although its event loop does not: a
/// checkpoint, a kernel that is being compiled, a long computation. A thread of its own answers the
/// probes of peers with how long this rank's loop has not run, and receives the answers to this
/// rank's probes. A process that is stopped or gone, and a host that cannot be reached, do not
/// answer. Over UDP, at the addresses and port numbers at which rails listen; where these datagrams
/// are dropped, a busy peer counts as lost.
///
/// All members but the thread are used on the loop's executor. Nothing blocks.
class monitor {
 public:
  using clock = std::chrono::steady_clock;
  struct route {
    asio::ip::address from;
    asio::ip::udp::endpoint to;

    friend bool operator==(const route&, const route&) = default;
  };
  struct sighting {
    clock::time_point at;
    std::chrono::milliseconds busy_for{0};
  };

  /// @param key  of the job; empty: messages are not authenticated
  monitor(int rank, int size, const secret& key);
  monitor(const monitor&) = delete;
  monitor& operator=(const monitor&) = delete;
  ~monitor();

  /// Listens at this address, too. False if another process has the port, or there is no descriptor
  /// left. @pre not started
  bool listen(const asio::ip::address& where, std::uint16_t port);
  /// Starts the thread, once. @par Errors thrown  `errc::limit_exceeded`: no thread.
  void start();

  /// How to reach a peer; probes take all of these.
  void set_routes(int peer, std::vector<route> routes);
  /// Sends a probe over every route. Without routes it does nothing.
  void probe(int peer) noexcept;
  /// The last answer of this peer.
  std::optional<sighting> seen(int peer) const noexcept;
  /// This rank's loop runs now.
  void loop_runs(clock::time_point now) noexcept;

 private:
  struct state;
  static void serve(state& shared);
  static void receive(state& shared, int socket);

  const std::shared_ptr<state> state_;  // with the thread
  std::vector<std::vector<route>> routes_;
  const detail::process_origin origin_;
  bool started_ = false;
};

}  // namespace tandem::rails::liveness
