#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <tandem/settings.hpp>

#include "rails/link.hpp"
#include "sealed/connection.hpp"
#include "support/coroutine_test.hpp"

namespace tandem::test {

/// What one side makes of a connection for a lane.
using lane_connection_maker = std::function<awaitable<std::unique_ptr<rails::lane_connection>>(
    sealed::connection over, sealed::side which, std::uint16_t lane)>;

/// Makes lanes without proofs. With `settings::encrypt` they are sealed, with
/// `settings::job_secret`.
struct lane_maker {
  using hello = std::array<std::uint32_t, 2>;  ///< lane and epoch

  settings options;
  lane_connection_maker make;  ///< empty: the connection itself is the wire

  awaitable<std::unique_ptr<rails::lane_connection>> dress(asio::ip::tcp::socket over, hello said,
                                                           sealed::side which) const;
};

std::shared_ptr<rails::link> make_rig_link(const asio::any_io_executor& executor,
                                           const settings& options, std::size_t lanes,
                                           const rails::timeouts& bounds = {});

/// The link dials its lanes at these places.
/// @param where  throws `connection_refused` where nobody listens any more
void connect_lanes(rails::link& on, std::shared_ptr<const lane_maker> by,
                   std::function<asio::ip::tcp::endpoint(std::uint16_t lane)> where);

/// Takes the lanes that are dialled, until it is closed or the link is over. Kept alive by itself.
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
  awaitable<void> welcome(asio::ip::tcp::socket guest);

  const std::shared_ptr<rails::link> on_;
  const std::shared_ptr<const lane_maker> by_;
  asio::ip::tcp::acceptor acceptor_;
};

bool all_up(const rails::link& end);
/// Until it is so, looking now and then: what is awaited may need the processor.
awaitable<void> poll_until(std::function<bool()> condition, std::string what);

}  // namespace tandem::test
