#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <tandem/detail/memory_watch.hpp>
#include <tandem/error.hpp>
#include <tandem/kernel_messages.hpp>

#include "communicator/group.hpp"
#include "streams/relay_window.hpp"
#include "streams/slot_launch.hpp"

namespace tandem::detail {

/// Passes on what the kernels of this rank send to, and receive from, those of a rank whose memory
/// they cannot reach: from slots in pinned memory here to slots in pinned memory there, by the
/// channel between both (the way of the proxies of NCCL's network transports). A piece is a
/// message, with its head; each thread block has flows of its own. No call of the driver.
///
/// A piece begins when the kernel has filled its slot, or when the slot is free for one that a
/// launched kernel waits for; so the channel holds back what the peer has no slot for.
/// @par Cost  Two copies by kernels through the bus, besides the channel.
/// @par Failure  When the channel fails, or the peer sends anything else, nothing more is passed
/// on.
/// @par Executor  The group's, unless stated otherwise.
class slot_relay final : public std::enable_shared_from_this<slot_relay>, private memory_watch {
 public:
  /// Zeroed, as the processor accesses it.
  struct memory {
    slot_memory* inbox = nullptr;   ///< from which this rank's kernels receive
    slot_memory* outbox = nullptr;  ///< to which they send
    slot_report* report = nullptr;
    std::shared_ptr<const void> keep = {};
  };

  /// @pre connected to the peer. @param first_tag  of `flow_class::stream`, and `slot_blocks` from
  ///   there; the same on both ranks
  slot_relay(std::shared_ptr<group> over, int peer, std::uint16_t first_tag, memory where,
             kernel_messages::relay_handlers what);
  ~slot_relay() = default;
  slot_relay(const slot_relay&) = delete;
  slot_relay& operator=(const slot_relay&) = delete;

  /// The kernels that are launched now, and before, will have carried so many pieces of each block.
  /// Any thread.
  void expect(bool is_send, const slot_counts& launched);
  /// The owner leaves, and its kernels have ended: what they have sent is still passed on, receives
  /// are cancelled, and no handler is called.
  void leave() noexcept;

 private:
  struct piece;
  struct lane;

  bool look() override;
  bool is_watching() const noexcept override;
  void go_on();
  void post_go_on();
  std::uint32_t ready(const lane& of, unsigned block) const noexcept;
  void begin(lane& of, unsigned block, unsigned slot);
  void ended(piece& which);
  bool take_ended(lane& of, unsigned block);
  void fail(const error& why);
  void become_idle();
  void keep_or_release() noexcept;
  void linger();

  const std::shared_ptr<group> over_;
  const peer_channel path_;
  const std::uint16_t first_tag_;
  const memory where_;
  const std::function<void(bool)> on_change_;
  std::function<void(const error&)> on_failure_;
  asio::steady_timer linger_timer_;
  const std::unique_ptr<lane> sends_, receives_;
  std::mutex mutex_;
  slot_counts launched_sends_{}, launched_receives_{};
  bool is_posted_ = false, is_busy_ = false, is_ended_ = false;
  bool is_left_ = false, is_failed_ = false;
  int pending_ = 0;
  std::shared_ptr<slot_relay> self_;  ///< while the channel has pieces
};

}  // namespace tandem::detail
