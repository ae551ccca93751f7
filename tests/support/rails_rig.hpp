#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <random>
#include <tandem/channel.hpp>
#include <tandem/settings.hpp>

#include "conformance/channel_case.hpp"
#include "rails/link.hpp"

namespace tandem::test {

/// Two ends of a channel of rails over loopback, without secrets: lanes are dialled by the first
/// end and may be cut at will.
class rails_rig : public std::enable_shared_from_this<rails_rig> {
 public:
  static awaitable<std::shared_ptr<rails_rig>> connect(settings options, std::size_t lanes);

  /// The handles, once.
  channel_pair channels();
  /// Resets a lane's connection, as a middle box would.
  void cut(std::uint16_t lane);
  /// Cuts a lane about so often, until one of the channels is over.
  void keep_cutting(std::chrono::milliseconds every);

  std::shared_ptr<rails::link> ends[2];

 private:
  using socket = asio::ip::tcp::socket;
  awaitable<void> accept_all();
  awaitable<socket> dial(std::uint16_t lane, std::uint32_t epoch, std::string& name);
  awaitable<void> cut_for_ever(std::chrono::milliseconds every);

  explicit rails_rig(const asio::any_io_executor& executor);
  asio::ip::tcp::acceptor door_;
  std::mt19937 random_{1};
};

}  // namespace tandem::test
