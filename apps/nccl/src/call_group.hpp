#pragma once

#include <tandem.h>

#include <boost/container/small_vector.hpp>
#include <functional>
#include <memory>
#include <span>
#include <tandem/detail/nccl.hpp>
#include <vector>

#include "abi.hpp"
#include "comm_rank.hpp"

namespace tandem::nccl_abi {

/// A call of a program, ready to be started in either way.
struct posted_call {
  using start_function =
      std::function<tandem_status(const tandem_call*, tandem_op**, tandem_error*)>;

  std::shared_ptr<comm_rank> by = {};
  stream on = nullptr;
  /// Work that is queued on the stream before.
  std::function<void()> before = {};
  /// By the vendor's library, on the program's stream.
  std::function<void(const detail::nccl& library, detail::nc::comm native)> by_library = {};
  /// By channels.
  boost::container::small_vector<start_function, 1> by_channels = {};
};

/// The calls of one thread between ncclGroupStart and ncclGroupEnd, which start together: the
/// joining of communicators, or operations of any communicators.
///
/// Calls of the vendor's library are one group of it. Operations of channels start at once, and
/// then the streams wait for them (setting stream-waits), else this thread, or for host memory this
/// thread always.
class call_group {
 public:
  static call_group& of_thread() noexcept;

  void start() noexcept { ++depth_; }
  /// Starts what has been posted when the outermost group ends. @par Errors thrown: the first of
  /// any call; the others were started, unless they were refused.
  void end();
  /// Whether the group's last call, if any, is of another rank or on another stream.
  bool is_first_on(const comm_rank& by, stream which) const noexcept {
    return calls_.empty() || calls_.back().by.get() != &by || calls_.back().on != which;
  }
  /// Starts the call, or keeps it until the group ends.
  void post(posted_call call);
  /// Joins, or keeps it until the group ends. @param into  null after a failure
  void join(std::shared_ptr<comm_rank> rank, bool is_blocking, comm* into);

 private:
  struct joining {
    std::shared_ptr<comm_rank> rank;
    bool is_blocking;
    comm* into;
  };

  void run_joins(std::vector<joining> all);
  static void run_calls(std::span<const posted_call> all);

  int depth_ = 0;
  std::vector<joining> joins_;
  std::vector<posted_call> calls_;
  std::vector<posted_call> spare_;  ///< of the group before: its memory
};

}  // namespace tandem::nccl_abi
