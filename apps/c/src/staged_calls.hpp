#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <tandem/accelerator.hpp>
#include <vector>

#include "library_call.hpp"
#include "operation.hpp"

namespace tandem::c {

class group_of_ranks;

/// An operation that is being started.
struct staged_call {
  std::shared_ptr<operation_state> op;
  library_call call;
  std::shared_ptr<staged_block> block = nullptr;
};

/// Operations on short data of devices that channels carry, in the order of streams: the stream
/// copies the data into pinned memory, the loop carries the operation out on them there, and the
/// stream copies the result back. The loop calls no driver meanwhile, so a program may do what it
/// likes behind such a call.
/// @par Threads  Any, one at a time. Destroyed on the loop.
class staged_calls {
 public:
  /// @param max_bytes  the same on all ranks; 0: none
  staged_calls(group_of_ranks& group, std::size_t max_bytes);

  std::size_t max_bytes() const noexcept { return max_bytes_; }
  bool takes(const library_call& what) const noexcept;
  /// Waits while too many are in progress. Without locks, not on the loop.
  void wait_for_room(device_side& of);
  /// The two parts of a start: the data are handed over, behind the operation's beginning if it has
  /// one, then the stream waits. Of calls that start together the first parts come first, so that
  /// none waits for another. @pre takes
  /// @par Errors thrown: `device_failed`; it has not started then.
  void hand_over(staged_call& what);
  void start(const staged_call& what);
  /// Those that are not complete.
  std::vector<std::shared_ptr<operation_state>> in_progress();

 private:
  group_of_ranks& group_;
  const std::size_t max_bytes_;
  device_stream in_;
  std::map<int, device_stream> out_;  ///< by peer, so that none waits for another
  std::vector<std::shared_ptr<operation_state>> started_;
};

}  // namespace tandem::c
