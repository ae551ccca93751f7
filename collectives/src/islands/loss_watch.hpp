#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <tandem/error.hpp>
#include <utility>

#include "communicator/group.hpp"
#include "communicator/kept_message.hpp"

namespace tandem::detail {

/// Detects the failure of the job while this rank waits for no message, for example inside a
/// vendor's library: posts a receive that no correct peer ever matches, which ends with the
/// channel.
class loss_watch {
 public:
  /// Called at most once, on the group's executor, and never after the destructor.
  using failure_handler = std::function<void(const error& why)>;

  /// @pre connected to `peer`, a rank of the group. One for each group and peer.
  loss_watch(const group& of, int peer, failure_handler what)
      : message_(std::make_shared<message>(operation::kind::recv, of.to(peer),
                                           of.flow(group::watch_tag::loss))) {
    message_->deadline = operation::no_deadline;
    message::start(message_, [then = std::move(what)](message& ended) {
      if (ended.result) then(ended.failure ? *ended.failure : error(ended.result));
    });
  }
  ~loss_watch() { message_->drop(); }
  loss_watch(const loss_watch&) = delete;
  loss_watch& operator=(const loss_watch&) = delete;

 private:
  using message = kept_message<std::byte>;
  const std::shared_ptr<message> message_;
};

}  // namespace tandem::detail
