#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <tandem/settings.hpp>

#include "sealed/connection.hpp"
#include "support/coroutine_test.hpp"
#include "transports/rails/link.hpp"

namespace tandem::test {

/// Makes the lane connection of one side of a TCP connection.
using lane_connection_maker = std::function<awaitable<std::unique_ptr<rails::lane_connection>>(
    sealed::connection over, sealed::side which, std::uint16_t lane)>;

/// Makes lanes without proofs. With `settings::encrypt` they are encrypted, with
/// `settings::job_secret`.
struct lane_maker {
  using hello = std::array<std::uint32_t, 2>;  ///< lane and epoch

  settings options;
  lane_connection_maker make;  ///< empty: lanes over plain or encrypted TCP

  awaitable<std::unique_ptr<rails::lane_connection>> make_connection(asio::ip::tcp::socket over,
                                                                     hello lane_hello,
                                                                     sealed::side which) const;
};

std::shared_ptr<rails::link> make_rig_link(const asio::any_io_executor& executor,
                                           const settings& options, std::size_t lanes,
                                           const rails::timeouts& bounds);

/// The link connects its lanes to these endpoints.
/// @param where  throws `connection_refused` where nothing listens any more
void connect_lanes(rails::link& on, std::shared_ptr<const lane_maker> by,
                   std::function<asio::ip::tcp::endpoint(std::uint16_t lane)> where);

/// Accepts lanes until it is closed or the link is over. Keeps itself alive.
class lane_acceptor : public std::enable_shared_from_this<lane_acceptor> {
 public:
  static std::shared_ptr<lane_acceptor> open(std::shared_ptr<rails::link> on,
                                             std::shared_ptr<const lane_maker> by,
                                             const asio::ip::address& at);
  /// Throws `connection_refused` once it is closed.
  asio::ip::tcp::endpoint at() const;
  void close();

 private:
  lane_acceptor(std::shared_ptr<rails::link> on, std::shared_ptr<const lane_maker> by,
                const asio::ip::address& at);
  awaitable<void> accept_all();
  awaitable<void> accept_one(asio::ip::tcp::socket incoming);

  const std::shared_ptr<rails::link> on_;
  const std::shared_ptr<const lane_maker> by_;
  asio::ip::tcp::acceptor acceptor_;
};

bool all_up(const rails::link& end);
/// Polls with sleeps in between, as what is awaited may need the processor.
awaitable<void> poll_until(std::function<bool()> condition, std::string what);

}  // namespace tandem::test
