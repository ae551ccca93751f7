#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tandem/async.hpp>
#include <tandem/communicator.hpp>
#include <tandem/error.hpp>
#include <vector>

#include "library_calls.hpp"
#include "operation.hpp"

namespace tandem::c {

class job_state;

/// A communicator with its operations in progress. On the loop, unless stated otherwise.
class group_of_ranks : public std::enable_shared_from_this<group_of_ranks> {
 public:
  group_of_ranks(std::shared_ptr<job_state> job, std::unique_ptr<communicator> ranks,
                 stream_order order);

  /// Any thread.
  const std::shared_ptr<job_state>& job() const noexcept { return job_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  progress& loop() const noexcept;
  /// What carries its calls.
  std::string describe() const;
  /// "ranks 0-3", of the job.
  const std::string& ranks_text() const noexcept { return ranks_text_; }
  /// Starts an operation, on the loop.
  void submit(std::shared_ptr<operation_state> op, operation_body body);
  /// For operations in the order of streams; null: channels carry all.
  library_calls* library() const noexcept { return library_.get(); }

  communicator& ranks() noexcept { return *ranks_; }
  /// Carries collectives on device memory from now on, one at a time.
  void set_islands(std::unique_ptr<communicator> made) { islands_ = std::move(made); }
  /// Ends all operations with that failure; later ones fail with it, too.
  void end(std::exception_ptr why);
  /// The failure that ended it; null while it is usable.
  const std::exception_ptr& ended_by() const noexcept { return ended_by_ ? ended_by_ : failed_by_; }
  /// An operation has ended the communicator with that failure.
  void note_failure(std::exception_ptr why) {
    if (!failed_by_) failed_by_ = std::move(why);
  }

  using message = std::vector<std::byte>;
  /// Messages of this rank to itself with one tag.
  /// A message of this rank to itself.
  struct own_message {
    message text;          ///< of host memory, a copy
    const_view on_device;  ///< which is copied when it is received
    bool is_copying = false;
    bool is_received = false;
  };
  struct own_messages {
    std::deque<std::shared_ptr<own_message>> sent;
    std::deque<std::uint64_t> receives;  ///< that wait, in the order in which they have started
    std::uint64_t next_receive = 0;
  };
  own_messages& own(int tag) { return own_messages_[tag]; }
  async_condition& own_changed() noexcept { return own_changed_; }

  /// A message that a receive from any source has received beyond the one that it returns.
  std::optional<message> take_early_message(int from, int tag);
  void keep_early_message(int from, int tag, message text);

 private:
  using operation_list = std::list<std::shared_ptr<operation_state>>;
  struct submitted {
    std::shared_ptr<operation_state> op;
    operation_body body;
  };

  void begin(submitted what);
  void launch(submitted what);
  void launch_waiting();
  bool uses_islands(const operation_state& op) const noexcept {
    return islands_ && op.order == operation_state::ordering::collective &&
           op.kind != memory_kind::host;
  }
  void ended(operation_list::iterator which);

  const std::shared_ptr<job_state> job_;
  const std::unique_ptr<communicator> ranks_;
  std::unique_ptr<communicator> islands_;  ///< the same ranks; null: channels carry all
  const int rank_;
  const int size_;
  const std::string backend_text_;
  const std::string ranks_text_;
  std::shared_ptr<library_calls> library_;
  std::deque<submitted> waiting_;  ///< in the order of their calls
  operation_list running_;
  int collectives_running_ = 0;
  bool is_in_islands_ = false;                  ///< one of those that the islands carry is running
  const operation_state* beginning_ = nullptr;  ///< waits for its stream, and others for it
  std::exception_ptr ended_by_;                 ///< the caller's `end`
  std::exception_ptr failed_by_;  ///< the first collective that has ended the communicator
  std::map<std::pair<int, int>, std::deque<message>> early_messages_;  ///< by rank and tag
  std::map<int, own_messages> own_messages_;                           ///< by tag
  async_condition own_changed_;
};

/// The failure of a receive whose message is longer than its view.
error too_long(std::size_t bytes, int from, mutable_view into);

/// Receives the first message with that tag of any other rank; sets `bytes` and `source` of `op`.
///
/// A receive is posted for each rank. When one is complete, the others are cancelled, which has no
/// effect on messages: those that arrive nevertheless are kept for the next receives.
/// @par Cost  For each other rank a buffer as long as the view.
/// @par Errors thrown: `errc::unsupported_memory` for device memory; those of a receive.
asio::awaitable<void> receive_from_any(std::shared_ptr<group_of_ranks> among, mutable_view into,
                                       int tag, operation_state& op);

/// Receives from one rank, which may be this one; also a message that `receive_from_any` has kept.
asio::awaitable<void> receive_from(std::shared_ptr<group_of_ranks> among, mutable_view into,
                                   int from, int tag, operation_state& op);

/// Sends to one rank. A message to this rank is copied and complete at once if it is in host
/// memory; in device memory, it is complete when it has been received.
asio::awaitable<void> send_to(std::shared_ptr<group_of_ranks> among, const_view message, int to,
                              int tag);

}  // namespace tandem::c

struct tandem_comm {
  std::shared_ptr<tandem::c::group_of_ranks> state;
};
