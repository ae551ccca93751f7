#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <tandem/channel.hpp>
#include <tandem/detail/pending.hpp>
#include <tandem/detail/poller.hpp>
#include <vector>

#include "protocol/channel_handle.hpp"
#include "protocol/session.hpp"
#include "sealed/connection.hpp"
#include "sealed/stream.hpp"
#include "tcp/frame_reader.hpp"
#include "tcp/frame_writer.hpp"

namespace tandem::tcp {

/// Runs a session over one connected socket. Kept alive by its own coroutines and by its handle.
///
/// Writes are attempted at once in the caller's `start`; a coroutine takes over while the socket is
/// full. Reads are polled while the loop spins and the link is busy, and triggered by the kernel
/// otherwise.
class link final : public std::enable_shared_from_this<link>,
                   private pending_owner,
                   private pollable {
 public:
  /// Called when the connection ends without a close frame; true: `fail` will be called with the
  /// actual reason.
  using lost_handler = std::function<bool(const error& reason)>;

  link(sealed::connection over, const protocol::limits& agreed, protocol::identity who,
       std::chrono::steady_clock::duration operation_timeout);

  void run();  ///< starts reading
  bool start(operation& op);
  void cancel(operation& op);
  void fail(const error& reason, bool send_close);
  void on_lost(lost_handler handler) { lost_ = std::move(handler); }
  /// As `on_lost`, for a peer that does not acknowledge: its connection to rank 0 may be intact.
  void on_silent(lost_handler handler) { silent_ = std::move(handler); }

  asio::any_io_executor get_executor() { return socket_.get_executor(); }
  const protocol::session& messages() const noexcept { return session_; }

 private:
  static constexpr std::uint64_t no_late_send = ~std::uint64_t{0};

  void read_ready();
  bool poll() override;
  void arm() override;
  asio::awaitable<void> write_loop();
  asio::awaitable<void> drain_and_close(std::vector<std::byte> final_bytes, std::size_t sent_bytes);
  void flush();
  void complete_done();
  void complete_soon();
  void arm_timer(operation::time_point when);
  void on_connection_lost(const std::string& why);
  void protocol_violation();
  void on_close();
  void on_peer_failure();
  void abandon() noexcept override;

  asio::ip::tcp::socket socket_;
  sealed::stream bytes_;
  asio::steady_timer timer_;
  operation::time_point timer_due_ = operation::time_point::max();
  protocol::session session_;
  lost_handler lost_, silent_;

  frame_writer writer_{session_};
  std::uint64_t sent_when_late_ = no_late_send;  // bytes written when a send was found late
  bool write_blocked_ = false;
  bool write_ended_ = false;

  frame_reader reader_{session_};
  bool read_ended_ = false;
  bool armed_ = false;
  int empty_polls_ = 0;

  bool completion_posted_ = false;
  bool closed_ = false;
  asio::any_io_executor work_;  // an open link keeps its loop running
};

using link_channel = protocol::channel_handle<link>;

}  // namespace tandem::tcp
