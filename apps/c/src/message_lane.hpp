#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <tandem/detail/cancellable.hpp>
#include <tandem/error.hpp>
#include <tandem/stream_messages.hpp>
#include <vector>

#include "library_calls.hpp"
#include "operation.hpp"

namespace tandem::c {

class group_of_ranks;

/// The messages in one direction between this rank and another that copy engines carry out in the
/// order of streams (`stream_messages`), one after the other in the order of their calls. Those for
/// which that is not possible go over channels.
class message_lane : public std::enable_shared_from_this<message_lane> {
 public:
  struct entry {
    std::shared_ptr<operation_state> op;
    library_call call;
    std::uint32_t number = 0;  ///< of a receive that is queued
  };
  /// It is queued on that stream. On the loop.
  using queued_handler = std::function<void(const entry& which, accelerator::stream on)>;
  /// Ends the lanes of the group. On the loop.
  using failure_handler = std::function<void(const error& why)>;

  message_lane(group_of_ranks& group, std::shared_ptr<stream_messages> by, bool is_send,
               queued_handler queued, failure_handler failed);

  /// Any thread.
  void start(entry what);
  /// Ends its operations, and lets its stream go on. On the loop.
  void fail(const error& why);

 private:
  using group_ptr = std::shared_ptr<group_of_ranks>;

  accelerator::stream stream() const noexcept;
  std::optional<entry> take();
  void run(asio::awaitable<void> what);
  asio::awaitable<void> serve(group_ptr keep);
  asio::awaitable<void> carry_out(entry what);
  void carry_out_by_channels(const entry& what);
  asio::awaitable<void> take_answers(group_ptr keep);
  asio::awaitable<void> take_answer(entry what);
  void end_with(const entry& which, const std::exception_ptr& failure);
  error failure_of(const entry& which, const error& why) const;

  group_of_ranks& group_;
  const std::shared_ptr<stream_messages> by_;
  const bool is_send_;
  const queued_handler queued_;
  const failure_handler failed_;
  std::mutex mutex_;
  std::deque<entry> waiting_;
  bool is_serving_ = false;

  // On the loop.
  std::deque<entry> unanswered_;  ///< receives that are queued
  bool is_taking_answers_ = false;
  std::optional<error> ended_by_;
  std::vector<std::weak_ptr<cancellable>> running_;
};

}  // namespace tandem::c
