#pragma once

#include <algorithm>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tandem/error.hpp>
#include <tandem/kernel_collectives.hpp>
#include <tandem/kernel_messages.hpp>
#include <vector>

#include "library_call.hpp"
#include "operation.hpp"

namespace tandem::c {

class group_of_ranks;

/// The operations of a group that kernels carry out: of those that are `in_stream` the short ones
/// between GPUs that are no island, messages (`kernel_messages`, which have
/// the same length on both ranks) and collectives (`kernel_collectives`). They are on the callers'
/// own streams, but for the first ones, which begin when the ranks have found out that they can:
/// those are on streams of their own, so that no message of a batch waits for another.
class kernel_calls {
 public:
  /// The longest: by kernels that reach each other's memory, and by others. 0: none
  struct limits {
    std::size_t direct = 0, relayed = 0;
  };
  /// @param max_bytes  the same on all ranks
  kernel_calls(group_of_ranks& group, const limits& max_bytes)
      : group_(group), max_bytes_(max_bytes) {}

  bool are_possible() const noexcept { return max_bytes_.direct > 0 || max_bytes_.relayed > 0; }
  /// Among what operations of a lane can use; null: none.
  struct carriers {
    std::shared_ptr<kernel_messages> messages;
    std::shared_ptr<kernel_collectives> collectives;
  };
  bool takes(const carriers& by, const library_call& what) const noexcept;
  /// Of an operation whose lanes are not made yet.
  bool may_be_relayed(const library_call& what) const noexcept {
    const std::size_t bytes = std::max(what.message.bytes, what.data.bytes);
    return what.may_be_by_kernels && bytes > 0 && bytes <= max_bytes_.relayed;
  }
  /// Kernels of this rank and of another are not on one device at a time: none should wait.
  bool take_turns() const noexcept { return take_turns_; }
  /// Null where it is not possible, or not wanted. Adds to the text that says what carries
  /// operations. On the loop of all ranks at the same time. @par Errors  as of messages
  /// @param may_reach  whether the GPUs of both ranks may reach each other's memory; the same on
  ///   both
  asio::awaitable<std::shared_ptr<kernel_messages>> make_messages(
      int peer, accelerator& on, bool may_reach, std::string& text,
      kernel_messages::relay_handlers what);
  asio::awaitable<std::shared_ptr<kernel_collectives>> make_collectives(
      accelerator& on, std::string& text, kernel_messages::relay_handlers what);
  /// Of calls that differ. Any thread.
  std::optional<error> find_failure() const;
  /// Lets all kernels end. Any thread.
  void abort() noexcept;

  struct message {
    std::shared_ptr<kernel_messages> by;
    bool is_send = false;
    mutable_view data = {};
  };
  /// An operation that is being started: a collective, or messages that are launched together.
  struct started {
    const kernel_calls* of = nullptr;
    std::shared_ptr<operation_state> op;
    const char* name = "";
    std::shared_ptr<device_side> side;
    accelerator::stream on = nullptr;
    bool is_in_stream = false;                             ///< the caller's
    std::shared_ptr<kernel_collectives> collectives = {};  ///< null: messages
    kernel_collectives::call collective = {};
    boost::container::small_vector<message, 2> messages = {};
    device_side::point end = {};  ///< null: not launched; after a failure it has ended

    bool is_relayed() const noexcept {
      return collectives ? collectives->is_relayed()
                         : std::ranges::any_of(
                               messages, [](const message& each) { return each.by->is_relayed(); });
    }
  };
  /// @pre takes
  started make_started(std::shared_ptr<operation_state> op, const library_call& call,
                       const carriers& by, accelerator::stream on) const;
  using started_together = boost::container::small_vector<started*, 8>;
  /// All messages of a group with one launch, on the first of their streams if there are several
  /// (as NCCL does it): the others come before and behind it.
  static void launch(started_together& all);

 private:
  std::size_t max_bytes_by(const kernel_messages& which) const noexcept;
  std::size_t max_bytes_by(const kernel_collectives& which) const noexcept;
  kernel_path path() const noexcept;
  /// What is launched together.
  struct on_stream {
    device_side* side = nullptr;
    accelerator::stream on = nullptr;
    boost::container::small_vector<started*, 4> calls;

    bool holds_back(const started& later) const noexcept;
  };
  static void join_streams(started_together& all);
  static void launch(const on_stream& what);
  void watch(const std::shared_ptr<kernel_messages>& what);

  group_of_ranks& group_;
  const limits max_bytes_;
  std::atomic<bool> take_turns_{false};
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<kernel_messages>> watched_;
};

}  // namespace tandem::c
