#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <tandem/channel.hpp>
#include <tandem/pending.hpp>
#include <tandem/poller.hpp>

#include "protocol/session.hpp"

namespace tandem::tcp {

/// One connected socket that carries out a session. Kept alive by its own coroutines and by its
/// handle.
///
/// Writes are tried at once in the caller's `start`; a coroutine takes over while the socket is
/// full. One coroutine reads: headers and small payloads through a staging buffer, larger payloads
/// straight into the view.
class link final : public std::enable_shared_from_this<link>,
                   private pending_owner,
                   private pollable {
 public:
  /// Asked when the peer vanishes without a goodbye; true: somebody will call `fail` with the right
  /// reason.
  using lost_handler = std::function<bool(const error& reason)>;

  link(asio::ip::tcp::socket socket, const protocol::limits& agreed, protocol::identity who,
       std::chrono::steady_clock::duration operation_timeout);

  void run();  ///< starts reading
  bool start(operation& op);
  void cancel(operation& op);
  void fail(const error& reason, bool say_goodbye);
  void on_lost(lost_handler handler) { lost_ = std::move(handler); }

  asio::any_io_executor get_executor() { return socket_.get_executor(); }
  const protocol::session& state() const noexcept { return session_; }

 private:
  static constexpr std::size_t batch_frames = 16;
  static constexpr std::size_t staging_bytes = 8 * 1024;
  static constexpr std::uint64_t none_late = ~std::uint64_t{0};

  void read_ready();
  bool poll() override;
  void arm() override;
  asio::awaitable<void> write_loop();
  asio::awaitable<void> linger(protocol::wire_frame goodbye, std::size_t said);
  void flush();
  bool fill_batch();
  bool write_batch();
  void advance_batch(std::size_t bytes);
  bool read_some();
  void place(std::size_t bytes);
  void parse_staged();
  bool take_frame(const std::byte* at);
  void finish_landing();
  void complete_done();
  void complete_soon();
  void arm_timer(operation::time_point when);
  void vanished(const std::string& how);
  void broken(errc code, std::string detail);
  void abandon() noexcept override;

  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  operation::time_point timer_due_ = operation::time_point::max();
  protocol::session session_;
  lost_handler lost_;

  // Writing: frames given to the kernel together, and how far it took them.
  std::array<protocol::outgoing, batch_frames> batch_;
  std::array<protocol::wire_frame, batch_frames> headers_;
  std::size_t batch_size_ = 0;
  std::size_t batch_first_ = 0;
  std::size_t first_done_bytes_ = 0;  // of the first frame, header and payload
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t sent_when_late_ = none_late;  // how far writing was when a send was found late
  bool write_blocked_ = false;
  bool write_ended_ = false;

  // Reading.
  std::array<std::byte, staging_bytes> staging_;
  std::size_t staged_ = 0;
  protocol::landing landing_;
  bool is_landing_ = false;
  bool read_ended_ = false;
  bool armed_ = false;
  int empty_polls_ = 0;
  std::uint64_t received_bytes_ = 0;

  bool completion_posted_ = false;
  bool closed_ = false;
  asio::any_io_executor work_;  // an open link keeps its loop running
};

/// The handle that users own: closing it closes the link.
class link_channel final : public channel {
 public:
  explicit link_channel(std::shared_ptr<link> over);
  ~link_channel() override;
  asio::any_io_executor get_executor() const noexcept override;
  const channel_limits& limits() const noexcept override { return limits_; }
  channel_stats stats() const noexcept override { return link_->state().stats(); }
  void fail(const error& reason) noexcept override;
  bool start(operation& op) override { return link_->start(op); }
  void cancel(operation& op) noexcept override { link_->cancel(op); }

 private:
  std::shared_ptr<link> link_;
  channel_limits limits_;
};

}  // namespace tandem::tcp
