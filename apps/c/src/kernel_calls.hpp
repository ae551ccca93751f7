#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <tandem/error.hpp>
#include <tandem/kernel_messages.hpp>
#include <vector>

#include "library_call.hpp"
#include "operation.hpp"

namespace tandem::c {

class group_of_ranks;

/// The messages of a group that kernels carry out (`kernel_messages`): short ones of calls that are
/// `in_stream`, which have the same length on both ranks. They are on the callers' own streams, but
/// for the first ones, which begin when the ranks have found out that they can: those are on
/// streams of their own, so that no message of a batch waits for another.
class kernel_calls {
 public:
  /// @param max_bytes  the same on all ranks; 0: none
  kernel_calls(group_of_ranks& group, std::size_t max_bytes)
      : group_(group), max_bytes_(max_bytes) {}

  std::size_t max_bytes() const noexcept { return max_bytes_; }
  /// @param by  of the ranks of the message; null: none
  bool takes(const kernel_messages* by, const library_call& what) const noexcept;
  /// From then on `find_failure` looks at it. Any thread.
  void watch(std::shared_ptr<kernel_messages> what);
  /// Of a message whose lengths differ. Any thread.
  std::optional<error> find_failure() const;
  /// Lets all kernels end. Any thread.
  void abort() noexcept;

  /// An operation that is being started.
  struct started {
    std::shared_ptr<operation_state> op;
    library_call call;
    kernel_messages* by = nullptr;
    accelerator::stream on = nullptr;
    device_side::point end = {};  ///< null: not launched; after a failure it has ended
  };
  /// Those of one stream with one launch.
  static void launch(std::vector<started*> all);

 private:
  group_of_ranks& group_;
  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<kernel_messages>> watched_;
};

}  // namespace tandem::c
