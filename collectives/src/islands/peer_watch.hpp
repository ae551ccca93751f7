#pragma once

#include <boost/asio/steady_timer.hpp>
#include <memory>

#include "islands/loss_watch.hpp"

namespace tandem::detail {

/// A loss watch for ranks that wait inside a vendor's library. A peer that has closed in an orderly
/// way had finished its part, so work on the streams should complete soon: it is reported after a
/// grace period of 1 s. The end of this rank's own channels is not reported.
class peer_watch {
 public:
  /// As for `loss_watch`.
  peer_watch(const group& of, int peer, loss_watch::failure_handler what);

 private:
  void ended(const error& why);

  const std::shared_ptr<const loss_watch::failure_handler> then_;
  boost::asio::steady_timer grace_timer_;
  loss_watch watch_;
};

}  // namespace tandem::detail
