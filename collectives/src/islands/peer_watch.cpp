#include "islands/peer_watch.hpp"

#include <chrono>
#include <utility>

#include "communicator/group.hpp"

namespace tandem::detail {
namespace {

/// Time for the vendor's library to complete started work, unless a rank is missing.
constexpr std::chrono::seconds closed_grace{1};

}  // namespace

peer_watch::peer_watch(const group& of, int peer, loss_watch::failure_handler what)
    : then_(std::make_shared<const loss_watch::failure_handler>(std::move(what))),
      grace_timer_(of.executor()),
      watch_(of, peer, [this](const error& why) { ended(why); }) {}

void peer_watch::ended(const error& why) {
  if (why.code() == errc::channel_closed) return;
  if (why.code() != errc::peer_closed) return (*then_)(why);
  grace_timer_.expires_after(closed_grace);
  // One that has expired is not cancelled by the end of this object.
  grace_timer_.async_wait([weak = std::weak_ptr(then_), why](const error_code& cancelled) {
    const auto then = weak.lock();
    if (then && !cancelled) (*then)(why);
  });
}

}  // namespace tandem::detail
