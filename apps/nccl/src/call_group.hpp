#pragma once

#include <tandem.h>

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "abi.hpp"
#include "comm_rank.hpp"
#include "library_call.hpp"

namespace tandem::nccl_abi {

/// A call of a program that channels carry, ready to be started.
struct posted_call {
  using start_function =
      std::function<tandem_status(const tandem_call*, tandem_op**, tandem_error*)>;

  std::shared_ptr<comm_rank> by = {};
  stream on = nullptr;
  /// Work that is queued on the stream before.
  std::function<void()> before = {};
  boost::container::small_vector<start_function, 1> messages = {};
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
  /// Whether the group's last call by channels, if any, is of another rank or on another stream.
  bool is_first_on(const comm_rank& by, stream which) const noexcept {
    return calls_.empty() || calls_.back().by.get() != &by || calls_.back().on != which;
  }
  /// Starts the call, or keeps it until the group ends.
  void post(posted_call call);
  /// Whether this thread has made calls of the vendor's library with it, and it is open: then
  /// `post` of such calls needs nothing else.
  bool knows(comm which) const noexcept {
    return which != nullptr && std::ranges::find(recent_, which) != recent_.end() && which->is_open;
  }
  /// The same for a call of the vendor's library. @param others  as of `library_call`
  template <class... Others>
  void post(library_call::function what, Others&&... others) {
    if (depth_ > 0) {
      by_library_.emplace_back(what, std::forward<Others>(others)...);
    } else {
      run(library_call(what, std::forward<Others>(others)...));
    }
  }
  /// All that one function makes.
  class new_calls {
   public:
    explicit new_calls(call_group& of) noexcept : of_(of), first_(of.by_library_.size()) {}
    /// Without `post`, the group does not get them.
    ~new_calls() { of_.drop_from(first_); }
    new_calls(const new_calls&) = delete;
    new_calls& operator=(const new_calls&) = delete;

    template <class... Parts>
    library_call& add(Parts&&... parts) {
      return of_.by_library_.emplace_back(std::forward<Parts>(parts)...);
    }
    void keep(std::shared_ptr<const made_sum> sum) { of_.kept_sums_.push_back(std::move(sum)); }
    void post(comm by);

   private:
    call_group& of_;
    std::size_t first_;
  };
  /// Joins, or keeps it until the group ends. @param into  null after a failure
  void join(std::shared_ptr<comm_rank> rank, bool is_blocking, comm* into);

 private:
  struct joining {
    std::shared_ptr<comm_rank> rank;
    bool is_blocking;
    comm* into;
  };

  void run_joins(std::vector<joining> all);
  void run_calls();
  static void run(const library_call& call);
  static void require_ready(std::span<const library_call> calls);
  void drop_from(std::size_t call) noexcept {
    by_library_.erase(by_library_.begin() + static_cast<std::ptrdiff_t>(call), by_library_.end());
    if (by_library_.empty() && !kept_sums_.empty()) kept_sums_.clear();
  }

  int depth_ = 0;
  std::vector<joining> joins_;
  std::vector<posted_call> calls_;
  std::vector<library_call> by_library_;
  std::vector<std::shared_ptr<const made_sum>> kept_sums_;  ///< of `by_library_`
  std::array<comm, 4> recent_{};
  std::size_t next_recent_ = 0;
};

}  // namespace tandem::nccl_abi
