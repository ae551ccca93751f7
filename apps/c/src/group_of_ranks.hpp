#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tandem/communicator.hpp>
#include <vector>

#include "operation.hpp"

namespace tandem::c {

class job_state;

/// A communicator with its operations in progress. On the loop, unless stated otherwise.
class group_of_ranks : public std::enable_shared_from_this<group_of_ranks> {
 public:
  group_of_ranks(std::shared_ptr<job_state> job, std::unique_ptr<communicator> ranks);

  /// Any thread.
  const std::shared_ptr<job_state>& job() const noexcept { return job_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const std::string& backend_text() const noexcept { return backend_text_; }
  progress& loop() const noexcept;
  /// Starts an operation, on the loop.
  void submit(std::shared_ptr<operation_state> op);

  communicator& ranks() noexcept { return *ranks_; }
  /// Ends all operations with that failure; later ones fail with it, too.
  void end(std::exception_ptr why);
  /// The failure that ended it; null while it is usable.
  const std::exception_ptr& ended_by() const noexcept { return ended_by_; }

  /// A message that a receive from any source has received beyond the one that it returns.
  using message = std::vector<std::byte>;
  std::optional<message> take_early_message(int from, int tag);
  void keep_early_message(int from, int tag, message text);

 private:
  using operation_list = std::list<std::shared_ptr<operation_state>>;

  void begin(std::shared_ptr<operation_state> op);
  void launch(std::shared_ptr<operation_state> op);
  void ended(operation_list::iterator which);

  const std::shared_ptr<job_state> job_;
  const std::unique_ptr<communicator> ranks_;
  const int rank_;
  const int size_;
  const std::string backend_text_;
  std::deque<std::shared_ptr<operation_state>> waiting_;  ///< collectives, in their order
  operation_list running_;
  int collectives_running_ = 0;
  std::exception_ptr ended_by_;
  std::map<std::pair<int, int>, std::deque<message>> early_messages_;  ///< by rank and tag
};

/// Receives the first message with that tag of any other rank; sets `bytes` and `source` of `op`.
///
/// A receive is posted for each rank. When one is complete, the others are cancelled, which has no
/// effect on messages: those that arrive nevertheless are kept for the next receives.
/// @par Cost  For each other rank a buffer as long as the view.
/// @par Errors thrown: `errc::unsupported_memory` for device memory; those of a receive.
asio::awaitable<void> receive_from_any(std::shared_ptr<group_of_ranks> among, mutable_view into,
                                       int tag, operation_state& op);

/// Receives from one rank, also a message that `receive_from_any` has kept.
asio::awaitable<void> receive_from(std::shared_ptr<group_of_ranks> among, mutable_view into,
                                   int from, int tag, operation_state& op);

}  // namespace tandem::c

struct tandem_comm {
  std::shared_ptr<tandem::c::group_of_ranks> state;
};
