#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "support/coroutine_test.hpp"

namespace tandem::test {

/// An eavesdropper between the two ends of connections: forwards and records all bytes, and may
/// change a bit.
class wire_tap : public std::enable_shared_from_this<wire_tap> {
 public:
  static std::shared_ptr<wire_tap> open(const asio::any_io_executor& executor,
                                        asio::ip::tcp::endpoint behind);

  asio::ip::tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }
  /// Flips the lowest bit of this byte that the connecting end of the next connection sends.
  void flip_at(std::size_t byte) { flip_at_ = byte; }
  /// The number of occurrences of the text, in either direction.
  std::size_t count(std::string_view words) const;
  std::size_t recorded_bytes() const;

 private:
  using socket = std::shared_ptr<asio::ip::tcp::socket>;
  explicit wire_tap(const asio::any_io_executor& executor, asio::ip::tcp::endpoint behind);
  awaitable<void> accept_all();
  awaitable<void> pass_on(socket from, socket to, std::optional<std::size_t> flip_at);

  asio::ip::tcp::acceptor acceptor_;
  asio::ip::tcp::endpoint behind_;
  std::deque<std::string> recorded_;  // one for each direction of each connection
  std::optional<std::size_t> flip_at_;
};

}  // namespace tandem::test
