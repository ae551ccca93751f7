#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <tandem/error.hpp>
#include <tandem/library_queue.hpp>
#include <vector>

#include "operation.hpp"

namespace tandem::c {

class group_of_ranks;

/// The operations of a group that are queued on streams. Looks at them from time to time: lets go
/// of those that are complete, and ends the job when one takes longer than its limit.
/// @par Threads  Any, unless stated otherwise. Destroyed on the loop.
class queued_operations : public std::enable_shared_from_this<queued_operations> {
 public:
  /// @param find_failure  looks for another reason to end the job
  queued_operations(group_of_ranks& group, std::function<std::optional<error>()> find_failure);

  /// @pre in the order of their ends on each stream
  /// @param by  what carries it out; null: no library
  void add(std::shared_ptr<operation_state> op, const char* name, const library_queue* by);
  /// Waits until they are complete, at most until their limits; not for receives whose peer has not
  /// called. Not on the loop.
  void finish();
  /// Ends them. On the loop.
  void fail(const error& why);

 private:
  struct entry {
    std::shared_ptr<operation_state> op;
    const char* name;
    const library_queue* by;
    progress::time_point deadline;
  };

  using entries = std::deque<entry>;
  static constexpr std::size_t looked_at_once = 32;

  /// One that was looked at.
  struct seen {
    std::shared_ptr<operation_state> op;
    bool is_over = false;
    std::exception_ptr failure = {};
  };
  using seen_ones = boost::container::small_vector<seen, looked_at_once>;
  static void copy_some(const entries& of, std::size_t first, std::size_t most, seen_ones& into);
  static void drop(entries& from, const seen_ones& those);
  bool look_at(seen_ones& all) const;
  void let_go_of_others();
  void look();
  bool look_at_some(entries& in, std::size_t& left, std::optional<error>& why);
  std::vector<entry> all_entries(bool takes);
  void look_again();
  error late(const entry& which) const;

  group_of_ranks& group_;
  const std::function<std::optional<error>()> find_failure_;
  boost::asio::steady_timer timer_;
  std::mutex mutex_;  ///< never held for long: also the loop takes it
  entries by_kernels_, others_;
  int calls_until_look_ = 0;  ///< at the others
  bool is_looking_ = false;
};

}  // namespace tandem::c
