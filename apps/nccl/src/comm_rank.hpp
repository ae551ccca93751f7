#pragma once

#include <tandem.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tandem/accelerator.hpp>
#include <tandem/detail/job_watch.hpp>
#include <tandem/library_queue.hpp>
#include <tandem/memory.hpp>
#include <thread>
#include <vector>

#include "abi.hpp"
#include "comm_handle.hpp"
#include "failure.hpp"
#include "job_state.hpp"
#include "meeting_point.hpp"
#include "vendor_library.hpp"

namespace tandem::nccl_abi {

/// How a rank joins a communicator.
struct join_plan {
  meeting_point at;
  bool serves = false;  ///< this rank serves the meeting
  int rank = 0;
  int size = 1;
};

/// A premultiplied sum that the program has made.
struct made_sum {
  type of = float32;
  std::array<std::byte, 8> factor{};  ///< an element of that type
  const void* on_device = nullptr;    ///< where it is read for each call instead; may be null
};

/// One rank's end of a communicator, of which programs hold the handle: a job of its own, and, if
/// all its ranks are one island, a communicator of the vendor's library, which then carries all
/// calls in the order of the program's streams.
///
/// A lost rank ends the job. Operations that channels carry fail and let their streams go on; the
/// library's communicator is aborted, which ends its kernels. `state` then returns an error.
/// @par Threads  Any; as in NCCL, one at a time for calls, and any for `state` and `abort`.
class comm_rank {
 public:
  /// Where and as which rank it joins; may communicate. Empty: as none.
  using planner = std::function<std::optional<join_plan>()>;

  comm_rank(planner plan, memory_kind kind, int device);
  ~comm_rank();
  comm_rank(const comm_rank&) = delete;
  comm_rank& operator=(const comm_rank&) = delete;

  /// Joins, with all other ranks. False: the plan is empty.
  /// @par Errors thrown: those of the plan and of `c::job_state::join`.
  bool join();
  /// The same on a thread of its own; `state` is `in_progress` meanwhile.
  void start_to_join();

  // Joined, except for kind and device.

  int rank() const noexcept { return how_.rank; }
  int size() const noexcept { return how_.size; }
  memory_kind kind() const noexcept { return kind_; }
  int device() const noexcept { return device_; }

  /// `in_progress` while it is joining; else `success` or the error that has ended it, whose text
  /// is the last error then. An operation that has failed ends it.
  result state();
  std::string last_error();
  void set_last_error(std::string text);

  /// @par Errors thrown: `failure` unless `state` is `success`
  void require_ready();
  tandem_comm* channels() const noexcept { return tandem_job_world(job_.get()); }
  accelerator& on() const { return accelerator_at(kind_, device_); }
  /// The vendor's library carries all calls.
  bool is_one_island() const noexcept { return queue_ != nullptr; }
  const vendor_library& library() const noexcept { return *library_; }
  /// @pre is_one_island
  library_queue& queue() const noexcept { return *queue_; }
  /// Lives on.
  comm_handle& handle() const noexcept { return handle_; }
  detail::polled_mutex& library_mutex() noexcept { return handle_.mutex; }
  /// @pre the mutex is held @par Errors thrown: `failure`: it was aborted
  detail::nc::comm native() const;

  int add(made_sum sum);
  void remove_sum(int op);
  std::shared_ptr<const made_sum> find_sum(int op) const;

  /// Memory for a copy that is work of the stream: until the stream's next copy.
  void* copy_for(stream on, std::size_t bytes);

  /// An operation that channels carry, until it is complete.
  void keep(tandem_op* started);
  /// Waits for all operations that channels carry, and for the library's; no more calls after it.
  void finish();
  /// Ends the communicator on every rank.
  void abort(const std::string& reason);
  /// The ids that the ranks have made for those that are left after a failure, once; zero where a
  /// rank could make none. Later, and of a single rank, none.
  std::vector<unique_id> take_next_ids();

 private:
  struct job_deleter {
    void operator()(tandem_job* job) const noexcept { tandem_job_destroy(job); }
  };

  std::unique_ptr<tandem_job, job_deleter> make_job() const;
  void make_queue();
  void open_handle();
  void watch_job();
  void make_next_ids();
  void lost(const error& why);
  void drop_complete(int most);
  void drop_first();
  std::shared_ptr<c::operation_state> first_started() const;

  comm_handle& handle_;
  const planner plan_;
  const memory_kind kind_;
  const int device_;
  join_plan how_;
  std::vector<unique_id> next_ids_;
  const vendor_library* library_ = nullptr;
  std::unique_ptr<tandem_job, job_deleter> job_;
  std::shared_ptr<c::group_of_ranks> ranks_;
  std::unique_ptr<library_queue> queue_;
  std::unique_ptr<detail::job_watch> watch_;  ///< where channels carry the calls
  std::thread joining_, aborting_;
  std::atomic<result> state_{in_progress};

  mutable std::mutex mutex_;
  std::string last_error_;
  std::map<int, std::shared_ptr<const made_sum>> sums_;
  int next_sum_ = built_in_ops;
  std::deque<tandem_op*> started_;
  /// Those that were too small are kept, too: earlier calls may still use them.
  std::map<stream, std::vector<buffer>> copies_;
};

/// Makes the communicator's device current for calls of the vendor's library, if another one is.
class current_device_guard {
 public:
  explicit current_device_guard(const comm_rank& of);
  ~current_device_guard();
  current_device_guard(const current_device_guard&) = delete;
  current_device_guard& operator=(const current_device_guard&) = delete;

 private:
  accelerator* entered_ = nullptr;
};

/// The communicators that programs hold; what a program passes may be any pointer. A call keeps its
/// communicator alive: another thread may abort and free it meanwhile. Any thread.
class comm_table {
 public:
  static comm_table& of_process();

  /// Of a communicator that is being made; the table has it for ever.
  comm_handle& make_handle();
  comm add(std::shared_ptr<comm_rank> made);
  /// Null: none that exists.
  std::shared_ptr<comm_rank> find(comm which) const;
  std::shared_ptr<comm_rank> remove(comm which);

 private:
  comm_table() = default;
  ~comm_table() = delete;

  mutable std::mutex mutex_;
  std::map<comm, std::shared_ptr<comm_rank>> all_;
  std::deque<comm_handle> handles_;
};

}  // namespace tandem::nccl_abi
