#pragma once

#include <functional>
#include <memory>
#include <tandem/error.hpp>

namespace tandem::detail {

class group;

/// Detects the failure of the job while this rank waits for no message, for example inside a
/// vendor's library: posts a receive that no correct peer ever matches, which ends with the
/// channel.
class loss_watch {
 public:
  /// Called at most once, on the group's executor, and never after the destructor.
  using failure_handler = std::function<void(const error& why)>;

  /// @pre connected to `peer`, a rank of the group. One for each group and peer.
  loss_watch(const group& of, int peer, failure_handler what);
  ~loss_watch();
  loss_watch(const loss_watch&) = delete;
  loss_watch& operator=(const loss_watch&) = delete;

 private:
  struct message;
  const std::shared_ptr<message> message_;
};

}  // namespace tandem::detail
