#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <tandem/channel.hpp>
#include <tandem/detail/poller.hpp>

#include "link/channel_handle.hpp"
#include "link/link_base.hpp"
#include "protocol/session.hpp"
#include "transports/shm/control_socket.hpp"
#include "transports/shm/frames_in.hpp"
#include "transports/shm/frames_out.hpp"
#include "transports/shm/process_watch.hpp"
#include "transports/shm/spin_wait_policy.hpp"

namespace tandem::shm {

/// Carries out a session through memory that two processes share.
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
class link final : public transport::link_base, private pollable {
 public:
  /// @param side  0 where this end made the memory.
  link(control_socket socket, int side, single_copy copies, const protocol::limits& agreed,
       protocol::identity who, std::chrono::steady_clock::duration operation_timeout);
  ~link();

  void run();  ///< starts reading
  bool start(operation& op);
  bool spin_wait(operation& op);
  void make_progress();
  /// Called whenever the peer rings the doorbell, whatever for.
  void on_doorbell(std::function<void()> handler) { doorbell_handler_ = std::move(handler); }
  /// Wakes the peer's loop if it is blocked.
  void ring_doorbell() noexcept;

  /// The peer reads long messages directly from this process' memory.
  bool peer_reads_references() const noexcept { return out_.may_refer(); }

 private:
  std::shared_ptr<link> self() { return std::static_pointer_cast<link>(shared_from_this()); }
  void watch();
  bool drain_doorbell();
  bool can_progress() const noexcept;
  void advance();
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
  void end_io() noexcept { write_ended_ = read_ended_ = true; }
  void on_close();
  void set_close_state(close_state how) noexcept;
  void stop(const error& reason, bool notify_peer) override;
  void operations_ended() override { flush(); }
  std::optional<std::uint64_t> progress() const noexcept override { return out_.moved(); }
  bool abandon_io() noexcept override;

  const detail::process_origin origin_;
  control_socket socket_;
  control_block& local_;
  control_block& remote_;
  const std::shared_ptr<process_watch> peer_process_;
  protocol::session session_;
  std::function<void()> doorbell_handler_;

  frames_out out_;
  frames_in in_;
  std::uint32_t pending_wake_ =
      0;                         // wake bits not yet checked against the peer's mask after a fence
  unsigned unfenced_sends_ = 0;  // sends since the last fence
  bool write_ended_ = false;
  bool read_ended_ = false;
  bool is_armed_ = false;
  bool poll_posted_ = false;
  spin_wait_policy spin_wait_policy_;
};

using link_channel = transport::channel_handle<link>;

}  // namespace tandem::shm
