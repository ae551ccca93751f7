/// Short messages between the GPUs of two ranks, which kernels carry out.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tandem/accelerator.hpp>
#include <tandem/communicator.hpp>
#include <vector>

#pragma GCC visibility push(default)

namespace tandem {

/// Messages between the GPUs of this rank and of one other, which kernels carry out on the caller's
/// streams: a call costs one launch for any number of messages to and from any ranks.
///
/// On one host the sender's kernel copies a message into slots in the memory of the receiver's GPU,
/// whose kernel copies it out (the way of NCCL's kernels), and no processor takes part. Elsewhere
/// they are relayed: the slots are in pinned memory, and the loops of both ranks pass pieces of
/// 32 KiB on through the channel between them, without a call of the driver. A message longer than
/// the slots takes both kernels at a time: a send of more than 16 MiB completes when the peer has
/// launched its receive. All thread blocks of such messages have to fit on the GPU at a time.
///
/// The k-th send of a rank matches the k-th receive of the other; both have the same length, of
/// less than 4 GiB.
///
/// @par Cost  Some 16 MiB of device memory on both, 33 MiB of pinned memory if they are relayed; as
///   many thread blocks of 576 threads as a message has 8 KiB, at most 32 in each direction, which
///   stay on the GPU until the peer's have come.
/// @par Failure  A loss of the peer has to be noticed elsewhere (`stream_messages`) unless they are
///   relayed, and `abort` to be called then.
/// @par Threads  `launch` any, one at a time for the same ranks; the rest on the communicator's
///   executor, unless stated otherwise.
class kernel_messages {
 public:
  /// What `make` has made.
  struct made {
    std::shared_ptr<kernel_messages> messages;  ///< null on both ranks if it is not possible
    std::string why_not;
    bool take_turns = false;  ///< kernels of both ranks, on one device: why not
  };
  /// Called by both ranks. GPUs of NVIDIA only: HIP documents no coherence of device memory between
  /// kernels of two GPUs while they run.
  /// @param which  tells apart what two ranks make at the same time: 0 to 7
  /// @param why_not  not empty: this rank cannot
  /// @par Cost  Some short messages, and on first use the compilation of a kernel.
  /// @par Errors  as of messages.
  static asio::awaitable<made> make(communicator& over, int peer, accelerator& of,
                                    std::uint16_t which = 0, std::string why_not = {});
  /// What a relay tells its owner.
  struct relay_handlers {
    /// The peer is lost, or has sent anything else. Called at most once, on the communicator's
    /// executor; kernels that wait go on after `abort` only.
    std::function<void(const error& why)> lost = {};
    /// Whether kernels wait for this rank's loop. Called before they are launched, on any thread,
    /// and when they need it no more. It must not throw, and make no calls of this class.
    std::function<void(bool do_wait)> changed = {};
  };
  /// The same for messages that are relayed, between GPUs of any vendors.
  static asio::awaitable<made> make_relayed(communicator& over, int peer, accelerator& of,
                                            relay_handlers what, std::uint16_t which = 0,
                                            std::string why_not = {});
  /// Waits until its kernels are through, for up to a second; memory that they still use then is
  /// never freed.
  ~kernel_messages();
  kernel_messages(const kernel_messages&) = delete;
  kernel_messages& operator=(const kernel_messages&) = delete;

  /// A message that is launched.
  struct message {
    kernel_messages* between = nullptr;
    bool is_send = false;
    mutable_view data = {};  ///< in memory of the device; a send only reads it
    std::uint32_t call = 0;  ///< what it belongs to; of a message and its receive the same
  };
  /// A point behind a message. May outlive its `kernel_messages`.
  class end {
   public:
    /// Whether the message is complete (one that is relayed: has left), or was aborted; false after
    /// a `mismatch` until then. Any thread; no call of the driver.
    bool has_passed() const noexcept;

   private:
    friend class kernel_messages;
    struct place;
    std::shared_ptr<const place> place_;
  };
  /// Launches messages, of any ranks whose `kernel_messages` are on the same device, together.
  /// @par Errors thrown: `device_failed`; nothing more can be launched then.
  static std::vector<end> launch(std::span<const message> what, accelerator::stream on);

  /// Where a message and its receive differ, which ends both. Any thread.
  struct mismatch {
    std::size_t bytes_sent = 0, bytes_expected = 0;
    std::uint32_t call_sent = 0, call_expected = 0;
  };
  std::optional<mismatch> find_mismatch() const noexcept;
  int peer() const noexcept { return peer_; }
  bool is_relayed() const noexcept;
  const accelerator& on() const noexcept;

  /// Lets all kernels end, also those that are launched later. Any thread.
  void abort() noexcept;

 private:
  friend class kernel_collectives;
  struct memory;
  struct report;
  explicit kernel_messages(int peer) noexcept : peer_(peer) {}

  /// A message each way, of one length, or only the one to this rank, whose data are combined with
  /// what it receives.
  struct exchange {
    const_view sent = {};  ///< null: none
    const_view combined = {};
    mutable_view into = {};  ///< may be at either
    std::uint32_t call = 0;
  };
  /// @param by  a kernel of slot_exchange.hpp
  /// @returns ends behind which the messages are complete, and the data are combined
  std::vector<end> launch_exchange(const exchange& what, accelerator::kernel by,
                                   accelerator::stream on);
  end end_of(bool is_send, std::size_t bytes) const;
  /// All kernels that were launched are through.
  bool is_idle() const noexcept;

  const int peer_;
  std::shared_ptr<memory> memory_;
};

}  // namespace tandem

#pragma GCC visibility pop
