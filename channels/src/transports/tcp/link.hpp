#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <tandem/channel.hpp>
#include <tandem/detail/poller.hpp>
#include <vector>

#include "link/channel_handle.hpp"
#include "link/link_base.hpp"
#include "protocol/session.hpp"
#include "sealed/connection.hpp"
#include "sealed/stream.hpp"
#include "transports/tcp/frame_reader.hpp"
#include "transports/tcp/frame_writer.hpp"

namespace tandem::tcp {

/// Runs a session over one connected socket.
///
/// Writes are attempted at once in the caller's `start`; a coroutine takes over while the socket is
/// full. Reads are polled while the loop spins and the link is busy, and triggered by the kernel
/// otherwise.
class link final : public transport::link_base, private pollable {
 public:
  link(sealed::connection over, const protocol::limits& agreed, protocol::identity who,
       std::chrono::steady_clock::duration operation_timeout);

  void run();  ///< starts reading
  bool start(operation& op);

 private:
  std::shared_ptr<link> self() { return std::static_pointer_cast<link>(shared_from_this()); }
  void read_ready();
  bool poll() override;
  void arm() override;
  asio::awaitable<void> write_loop();
  asio::awaitable<void> drain_and_close(std::vector<std::byte> final_bytes, std::size_t sent_bytes);
  void flush();
  void take(frame_reader::outcome came);
  void end_io() noexcept { write_ended_ = read_ended_ = true; }
  void on_close();
  void stop(const error& reason, bool notify_peer) override;
  void operations_ended() override { flush(); }
  std::optional<std::uint64_t> progress() const noexcept override { return bytes_.sent_bytes(); }
  bool abandon_io() noexcept override;

  asio::ip::tcp::socket socket_;
  sealed::stream bytes_;
  protocol::session session_;

  frame_writer writer_{session_};
  bool write_blocked_ = false;
  bool write_ended_ = false;

  frame_reader reader_{session_};
  bool read_ended_ = false;
  bool armed_ = false;
  int empty_polls_ = 0;
};

using link_channel = transport::channel_handle<link>;

}  // namespace tandem::tcp
