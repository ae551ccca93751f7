#pragma once

#include <functional>
#include <memory>
#include <tandem/error.hpp>

namespace tandem::detail {

class group;

/// Hears that the job is over while this rank waits for no message of it, inside a vendor's
/// library, say: a receive with one peer that no correct peer meets, and that ends when the channel
/// does.
class loss_watch {
 public:
  /// Called at most once, on the group's executor, and not once this is gone.
  using heard = std::function<void(const error& why)>;

  /// @pre connected to `peer`, a rank of the group. One for each group and peer.
  loss_watch(const group& of, int peer, heard what);
  ~loss_watch();
  loss_watch(const loss_watch&) = delete;
  loss_watch& operator=(const loss_watch&) = delete;

 private:
  struct message;
  const std::shared_ptr<message> message_;
};

}  // namespace tandem::detail
