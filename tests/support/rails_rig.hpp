#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <random>
#include <tandem/channel.hpp>
#include <tandem/settings.hpp>

#include "conformance/channel_case.hpp"
#include "rails/link.hpp"
#include "sealed/connection.hpp"
#include "support/wire_tap.hpp"

namespace tandem::test {

/// Two ends of a channel of rails over loopback, without proofs: lanes are dialled by the first end
/// and may be cut at will. With `settings::encrypt` they are sealed, with `settings::job_secret`.
class rails_rig : public std::enable_shared_from_this<rails_rig> {
 public:
  /// What one side makes of a connection for a lane.
  using wire_maker = std::function<awaitable<std::unique_ptr<rails::wire>>(
      sealed::connection over, sealed::side which, std::uint16_t lane)>;

  /// @param make  empty: the connection itself is the wire
  static awaitable<std::shared_ptr<rails_rig>> connect(settings options, std::size_t lanes,
                                                       bool tapped = false, wire_maker make = {});

  /// The handles, once.
  channel_pair channels();
  /// Resets a lane's connection, as a middle box would.
  void cut(std::uint16_t lane);
  /// Cuts a lane about so often, until one of the channels is over.
  void keep_cutting(std::chrono::milliseconds every);

  std::shared_ptr<rails::link> ends[2];
  std::shared_ptr<wire_tap> tap;  ///< between the two, where they are tapped

 private:
  awaitable<void> accept_all();
  awaitable<void> welcome(asio::ip::tcp::socket guest);
  static awaitable<std::unique_ptr<rails::wire>> dial(std::shared_ptr<rails_rig> self,
                                                      std::uint16_t lane, std::uint32_t epoch,
                                                      std::string& name);
  awaitable<void> cut_for_ever(std::chrono::milliseconds every);

  using rig_hello = std::array<std::uint32_t, 2>;
  sealed::keys keys_of(const rig_hello& hello, sealed::side which) const;
  awaitable<std::unique_ptr<rails::wire>> dress(asio::ip::tcp::socket over, rig_hello hello,
                                                sealed::side which) const;

  rails_rig(const asio::any_io_executor& executor, settings options);
  asio::ip::tcp::acceptor door_;
  const settings options_;
  wire_maker make_;
  std::mt19937 random_{1};
};

}  // namespace tandem::test
