#pragma once

#include <boost/container/small_vector.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "library_calls.hpp"

namespace tandem::c {

/// Operations that are started together, of any groups; what libraries carry out of them is
/// launched as one. One thread at a time.
class call_batch {
 public:
  using start_function = std::function<void(call_batch&)>;

  call_batch() = default;
  /// Operations that were not launched end with `operation_aborted`.
  ~call_batch();
  call_batch(const call_batch&) = delete;
  call_batch& operator=(const call_batch&) = delete;

  void add(std::shared_ptr<operation_state> op, bool is_send, start_function start);
  /// A message of which it is known that kernels carry it out.
  void add(library_calls::kernel_on_group message);
  /// Makes it a part of an operation that was added, of the same group, stream and time limit;
  /// null: there is none that may wait for it.
  std::shared_ptr<operation_state> join(const library_calls& by, const library_call& call,
                                        std::optional<std::chrono::milliseconds> timeout,
                                        const kernel_calls::message& what);
  /// Starts the receives, for which other ranks wait, and then the others, in the order in which
  /// they were added; it is empty then.
  void launch();

 private:
  friend class library_calls;
  class queue_use;
  struct entry {
    std::shared_ptr<operation_state> op;
    bool is_receive;
    start_function start;  ///< empty: `by_kernels`
    std::optional<library_calls::kernel_on_group> by_kernels = {};
  };

  bool launch_started();

  // With the locks of all groups.

  /// Queues calls, as one launch if there are several.
  static void queue_all(std::span<const library_calls::call_on_lane> calls);
  static void stage_all(std::span<library_calls::staged_on_group> calls);
  static void launch_all(std::span<library_calls::kernel_on_group> calls);

  std::vector<entry> entries_;
  std::vector<library_calls::call_on_lane> ready_;
  std::vector<library_calls::staged_on_group> staged_;
  /// Also messages that were added before any entry.
  boost::container::small_vector<library_calls::kernel_on_group, 2> kernels_;
};

}  // namespace tandem::c

struct tandem_batch {
  tandem::c::call_batch operations;
};
