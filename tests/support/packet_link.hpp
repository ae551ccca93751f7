#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/seq_packet_protocol.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "link/link_base.hpp"
#include "protocol/session.hpp"

namespace tandem::test {

/// The smallest transport, to show what a new one costs over `link_base`: each frame and its
/// payload are one packet of a Unix socket between two ends of one process.
class packet_link final : public transport::link_base {
 public:
  using socket = asio::generic::seq_packet_protocol::socket;

  packet_link(socket over, const protocol::limits& agreed, const settings& options);

  void run();  ///< starts reading
  bool start(operation& op);

 private:
  std::shared_ptr<packet_link> self() {
    return std::static_pointer_cast<packet_link>(shared_from_this());
  }
  void flush();
  bool write(const protocol::wire_frame& header, const_view payload);
  void wait_writable();
  void wait_readable();
  void read_ready();
  void take(std::span<const std::byte> packet);
  void violated(const std::string& why);
  void on_close();
  asio::awaitable<void> send_close(protocol::wire_frame header);
  void stop(const error& reason, bool notify_peer) override;
  void operations_ended() override { flush(); }
  std::optional<std::uint64_t> progress() const noexcept override { return sent_packets_; }
  bool abandon_io() noexcept override;

  socket socket_;
  protocol::session session_;
  std::optional<protocol::outgoing_frame> next_;  // waits for room in the socket
  std::vector<std::byte> received_;
  std::uint64_t sent_packets_ = 0;
  bool waits_writable_ = false;
  bool ended_ = false;
};

}  // namespace tandem::test
