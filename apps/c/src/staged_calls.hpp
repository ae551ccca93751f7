#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <tandem/accelerator.hpp>
#include <vector>

#include "operation.hpp"

namespace tandem::c {

class group_of_ranks;
struct library_call;

/// What an operation does with its data, wherever those are: on a device, or in the host's memory.
struct data_call {
  using function =
      std::function<asio::awaitable<void>(operation_state&, mutable_view from, mutable_view into)>;

  mutable_view from = {};  ///< only read
  mutable_view into = {};
  /// Of the longest view that any rank has. 0: ranks cannot tell.
  std::size_t bytes = 0;
  function carry_out = {};
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
  /// Starts it, behind its beginning if it has one. @pre takes
  void start(const std::shared_ptr<operation_state>& op, const library_call& what);
  /// Those that are not complete.
  std::vector<std::shared_ptr<operation_state>> in_progress();

 private:
  group_of_ranks& group_;
  const std::size_t max_bytes_;
  // The order of each is the same on all ranks.
  device_stream in_, out_;
  std::vector<std::shared_ptr<operation_state>> started_;
};

}  // namespace tandem::c
