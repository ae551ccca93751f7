#pragma once

#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tandem/error.hpp>
#include <tandem/library_queue.hpp>
#include <utility>
#include <vector>

#include "operation.hpp"

namespace tandem::c {

class call_batch;
class group_of_ranks;

/// A call of a vendor's library that an operation makes.
struct library_call {
  static constexpr int all_ranks = -1;

  const char* name = "";
  int peer = all_ranks;                         ///< of a message
  bool is_send = false;                         ///< of a message
  std::size_t bytes = 0;                        ///< of a message
  std::shared_ptr<device_side> side = nullptr;  ///< of its buffers
  /// The same on all ranks. Empty: always.
  std::function<bool(const library_queue&)> is_possible = {};
  std::function<void(library_queue&)> make = {};
};

/// The operations of a group on device memory that NCCL or RCCL carries out in the order of
/// streams. The first collective, and the first message between two ranks, finds out whether their
/// GPUs are one island; operations wait meanwhile, in their order. Where they are not, and for what
/// the library does not have, channels carry the operation.
///
/// A lost rank or an operation that takes too long ends the job; what is queued ends with it.
/// @par Threads  Any, unless stated otherwise. Destroyed on the loop.
class library_calls : public std::enable_shared_from_this<library_calls> {
 public:
  /// `group` owns it.
  explicit library_calls(group_of_ranks& group);

  /// Starts an operation: queues its call, or gives `body` to the group. Collectives without a call
  /// come here, too: they start in the order of all.
  /// @param together  the batch that it is launched with; may be null
  void start(std::shared_ptr<operation_state> op, library_call call, operation_body body,
             call_batch* together);

  /// "NCCL 2.28.9", or why not; empty before the first collective.
  std::string text() const;
  /// Waits until what is queued is complete, at most until its time limits. Not on the loop.
  void finish_queued();
  /// Ends what is queued. Later operations fail, too. On the loop.
  void fail(const error& why) { try_fail(why, 0); }

 private:
  friend class call_batch;

  /// Where the collectives go, or the messages to or from one rank.
  struct lane {
    enum class phase : std::uint8_t { unknown, starting, ready };
    phase at = phase::unknown;
    std::unique_ptr<library_queue> queue;  ///< null when ready: channels
    std::vector<std::function<void()>> waiting;
    std::string text;
  };
  /// An operation whose lane has a queue.
  struct call_on_lane {
    std::shared_ptr<library_calls> by;
    lane* on = nullptr;
    std::shared_ptr<operation_state> op;
    library_call call;
  };
  struct queued_operation {
    std::shared_ptr<operation_state> op;
    const char* name;
    progress::time_point deadline;
  };

  // With the lock.
  void route(lane& on, std::shared_ptr<operation_state> op, library_call call, operation_body body,
             call_batch* together);
  void start_lanes(const library_call& first);
  void set_lane(const library_call& like, bool is_send, std::string text,
                std::unique_ptr<library_queue> queue);
  void start_waiting_on(lane& on);
  void note_queued(const call_on_lane& which);
  void end_all(const error& why);

  // On the loop.
  asio::awaitable<void> make_lanes(library_call like);
  asio::awaitable<void> try_make_lanes(const library_call& like);
  asio::awaitable<void> start_waiting(int peer);
  void look();
  void look_again();
  void try_fail(const error& why, int tries);

  /// Queues calls, as one launch if there are several. With the locks of all groups.
  static void queue_all(std::span<const call_on_lane> calls);

  group_of_ranks& group_;
  asio::steady_timer look_timer_;
  asio::steady_timer fail_timer_;
  mutable std::mutex mutex_;
  std::map<std::pair<int, bool>, lane> lanes_;  ///< by peer and direction
  std::deque<queued_operation> queued_;
  bool is_looking_ = false;
  std::optional<error> failed_;
};

/// Operations that are started together, of any groups; what libraries carry out of them is
/// launched as one. One thread at a time.
class call_batch {
 public:
  using start_function = std::function<void(call_batch&)>;

  call_batch() = default;
  /// Operations that were not launched end with `operation_aborted`.
  ~call_batch();
  call_batch(const call_batch&) = delete;
  call_batch& operator=(const call_batch&) = delete;

  void add(std::shared_ptr<operation_state> op, start_function start);
  /// Starts the operations in the order in which they were added; it is empty then.
  void launch();

 private:
  friend class library_calls;
  struct entry {
    std::shared_ptr<operation_state> op;
    start_function start;
  };

  std::vector<entry> entries_;
  std::vector<library_calls::call_on_lane> ready_;
};

}  // namespace tandem::c

struct tandem_batch {
  tandem::c::call_batch operations;
};
