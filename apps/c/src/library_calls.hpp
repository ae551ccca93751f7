#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tandem/error.hpp>
#include <tandem/library_queue.hpp>
#include <utility>
#include <vector>

#include "kernel_calls.hpp"
#include "library_call.hpp"
#include "operation.hpp"
#include "queued_operations.hpp"
#include "staged_calls.hpp"

namespace tandem::c {

class call_batch;
class group_of_ranks;
class message_lane;

/// Of messages between two ranks that are no caller's: those in which they introduce themselves,
/// and those of lanes that channels carry.
inline constexpr std::uint16_t own_tag = TANDEM_MAX_TAG + 1;

/// What may be carried out in the order of streams. The same on all ranks of a group.
enum class stream_order : std::uint8_t {
  none,        ///< nothing: the data of some ranks are in host memory
  messages,    ///< messages: a rank does not use its vendor's library
  by_library,  ///< also what the library carries
};

/// Up to which length operations on device memory that channels could carry are carried out in
/// other ways. The same on all ranks.
struct stream_limits {
  std::size_t staged_bytes = 0;  ///< by way of pinned memory
  std::size_t kernel_bytes = 0;  ///< by kernels that reach each other's memory
  std::size_t relay_bytes = 0;   ///< by kernels whose data are relayed
};

/// The operations of a group on device memory that are carried out in the order of streams: by NCCL
/// or RCCL, and messages between GPUs that reach each other and are no island by copy engines
/// (`stream_messages`). The first collective, and the first message between two ranks, finds out
/// what their GPUs can; operations wait meanwhile, in their order. Channels carry the others, and
/// what the library does not have.
///
/// A lost rank or an operation that takes too long ends the job; what is queued ends with it.
/// @par Threads  Any, unless stated otherwise. Destroyed on the loop.
class library_calls : public std::enable_shared_from_this<library_calls> {
 public:
  /// `group` owns it. @pre `order` is not `none`
  library_calls(group_of_ranks& group, stream_order order, const stream_limits& limits);

  /// Starts an operation: queues its call, or gives `body` to the group. Collectives without a call
  /// come here, too: they start in the order of all.
  /// @param together  the batch that it is launched with; may be null
  void start(std::shared_ptr<operation_state> op, library_call call, operation_body body,
             call_batch* together);

  /// The same for a message, if a kernel carries it out on the caller's own stream; else null, and
  /// nothing has changed. Of a batch, those of one stream are one operation.
  /// @par Errors thrown: `errc::bad_input` for a stream that is being captured.
  std::shared_ptr<operation_state> start_by_kernels(
      library_call& call, std::optional<std::chrono::milliseconds> timeout, call_batch* together);

  /// Whether the caller's own stream would now carry out such an operation, by way of pinned memory
  /// (`staged_calls`) or by a kernel (`kernel_calls`).
  bool is_in_stream(const library_call& what) const;
  /// Whether every rank may use its vendor's library.
  bool may_use_library() const noexcept { return may_use_library_; }
  /// "NCCL 2.28.9", or why not; empty before the first collective.
  std::string text() const;
  /// Waits until what is queued is complete, at most until its time limits; not for receives whose
  /// peer has not called. Not on the loop.
  void finish_queued();
  /// Ends what is queued. Later operations fail, too. On the loop.
  void fail(const error& why) { try_fail(why, 0); }

 private:
  friend class call_batch;

  /// Where the collectives go, or the messages to or from one rank.
  struct lane {
    enum class phase : std::uint8_t { unknown, starting, ready };
    phase at = phase::unknown;
    std::unique_ptr<library_queue> queue;
    std::shared_ptr<message_lane> messages;  ///< both null when ready: channels
    kernel_calls::carriers kernels;          ///< of short ones
    device_stream own;                       ///< of the first of them
    std::vector<std::function<void()>> waiting;
    std::string text;
  };
  /// An operation whose lane has a queue; null: what the queue is to note.
  struct call_on_lane {
    std::shared_ptr<library_calls> by;
    lane* on = nullptr;
    std::shared_ptr<operation_state> op;
    library_call call;
  };
  struct staged_on_group {
    std::shared_ptr<library_calls> by;
    staged_call what;
  };
  struct kernel_on_group {
    std::shared_ptr<library_calls> by;
    kernel_calls::started what;
    std::size_t position = 0;  ///< among the calls of a batch
  };

  // With the lock.
  bool is_staged(const lane& on, const library_call& what) const;
  bool needs_loop(const lane& on, const library_call& what) const;
  bool is_by_library(const lane& on, const library_call& what) const;
  void note_by_channels(lane& on, const library_call& what, call_batch* together);
  void route(lane& on, std::shared_ptr<operation_state> op, library_call call, operation_body body,
             call_batch* together);
  void start_lanes(const library_call& first);
  lane& set_lane(const library_call& like, bool is_send, std::string text);
  void log_lane(const library_call& like, const lane& made) const;
  void start_waiting_on(lane& on);
  void end_all(const error& why);

  // With or without it.
  static void note_received(operation_state& op, const library_call& call);
  void note_queued(const std::shared_ptr<operation_state>& op, const char* name,
                   const std::shared_ptr<device_side>& side, device_side::point end,
                   const library_queue* by);

  // On the loop.
  asio::awaitable<void> make_lanes(library_call like);
  asio::awaitable<void> try_make_lanes(const library_call& like);
  asio::awaitable<void> make_message_lanes(const library_call& like, std::string why_no_library);
  std::function<void(const error&)> when_lost();
  kernel_messages::relay_handlers relay_of(const device_side& of);
  asio::awaitable<void> start_waiting(int peer);
  void try_fail(const error& why, int tries);

  bool has_lane(const library_call& what) const noexcept {
    const bool may_have_queue = may_use_library_ || kernels_.are_possible();
    return what.make && (may_have_queue || what.peer != library_call::all_ranks);
  }

  group_of_ranks& group_;
  const bool may_use_library_;
  asio::steady_timer fail_timer_;
  mutable std::mutex mutex_;
  std::map<std::pair<int, bool>, lane> lanes_;  ///< by peer and direction
  std::optional<error> failed_;
  staged_calls staged_;
  kernel_calls kernels_;
  const std::shared_ptr<queued_operations> queued_;
};

}  // namespace tandem::c
