#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <tandem/channel.hpp>
#include <tandem/detail/pending.hpp>
#include <tandem/detail/poller.hpp>

#include "protocol/channel_handle.hpp"
#include "protocol/session.hpp"
#include "shm/control_socket.hpp"
#include "shm/frames_in.hpp"
#include "shm/frames_out.hpp"
#include "shm/process_watch.hpp"
#include "shm/spin_wait_policy.hpp"

namespace tandem::shm {

/// Carries out a session through memory that two processes share. Kept alive by its handle and by
/// the pending wait on its socket.
///
/// The socket reports the end of the peer (so does `process_watch`) and carries the doorbell, one
/// byte that wakes a blocked loop. While both ends poll there is no system call:
///
/// | end            | first                          | then, after a full fence      |
/// |----------------|--------------------------------|-------------------------------|
/// | about to block | sets its `wake_mask`           | polls the rings once more     |
/// | has written    | publishes record or progress   | reads the peer's `wake_mask`  |
///
/// So at least one end sees the other's store, and no wake-up is lost.
class link final : public std::enable_shared_from_this<link>,
                   private pending_owner,
                   private pollable {
 public:
  /// As of `tcp::link`.
  using lost_handler = std::function<bool(const error& reason)>;

  /// @param side  0 where this end made the memory.
  link(control_socket socket, int side, single_copy copies, const protocol::limits& agreed,
       protocol::identity who, std::chrono::steady_clock::duration operation_timeout);
  ~link();

  void run();  ///< starts reading
  bool start(operation& op);
  bool spin_wait(operation& op);
  void make_progress();
  void cancel(operation& op);
  void fail(const error& reason, bool send_close);
  void on_lost(lost_handler handler) { lost_ = std::move(handler); }
  /// Called whenever the peer rings the doorbell, whatever for.
  void on_doorbell(std::function<void()> handler) { doorbell_handler_ = std::move(handler); }
  /// Wakes the peer's loop if it is blocked.
  void ring_doorbell() noexcept;

  asio::any_io_executor get_executor() { return socket_.get_executor(); }
  const protocol::session& messages() const noexcept { return session_; }
  /// The peer reads long messages directly from this process' memory.
  bool peer_reads_references() const noexcept { return out_.may_refer(); }

 private:
  static constexpr std::uint64_t no_late_send = ~std::uint64_t{0};

  void watch();
  bool drain_doorbell();
  bool can_progress() const noexcept;
  void progress();
  void move(operation* until = nullptr);
  void read_to_end();
  void take(frames_in::outcome came);
  void conclude();
  void wake();
  bool poll() override;
  void arm() override;
  void flush();
  void notify_peer(std::uint32_t for_what) noexcept;
  void flush_doorbell() noexcept;
  void wake_peer() noexcept;
  void complete_done();
  void complete_soon();
  void arm_timer(operation::time_point when);
  void on_connection_lost(const std::string& how);
  void protocol_violation(const std::string& why);
  void on_close();
  void on_peer_failure();
  void set_close_state(close_state how) noexcept;
  void abandon() noexcept override;

  const detail::process_origin origin_;
  control_socket socket_;
  control_block& local_;
  control_block& remote_;
  asio::steady_timer timer_;
  const std::shared_ptr<process_watch> peer_process_;
  operation::time_point timer_due_ = operation::time_point::max();
  protocol::session session_;
  lost_handler lost_;
  std::function<void()> doorbell_handler_;

  frames_out out_;
  frames_in in_;
  std::uint32_t pending_wake_ =
      0;                         // wake bits not yet checked against the peer's mask after a fence
  unsigned unfenced_sends_ = 0;  // sends since the last fence
  std::uint64_t progress_when_late_ =
      no_late_send;  // `frames_out::moved` when a send missed its deadline
  bool write_ended_ = false;
  bool read_ended_ = false;
  bool is_armed_ = false;
  bool poll_posted_ = false;
  bool completion_posted_ = false;
  bool closed_ = false;
  spin_wait_policy spin_wait_policy_;
  asio::any_io_executor work_;  // an open link keeps its loop running
};

using link_channel = protocol::channel_handle<link>;

}  // namespace tandem::shm
