#include "islands/loss_watch.hpp"

#include <utility>

#include "communicator/group.hpp"

namespace tandem::detail {
namespace {

constexpr std::uint32_t loss_tag = 1;  // tag in the watch class of flows; call_watch uses 0

}  // namespace

/// Keeps itself alive until the channel has completed it.
struct loss_watch::message : operation {
  message(const group& of, int peer, failure_handler what_then)
      : path(of.to(peer)), then(std::move(what_then)) {
    what = kind::recv;
    flow = of.flow(group::flow_class::watch, loss_tag);
    view = mutable_view(&payload, sizeof payload);
    complete = [](operation& op) { static_cast<message&>(op).ended(); };
    destroy = [](operation& op) noexcept {
      const std::shared_ptr<message> last = std::move(static_cast<message&>(op).self);
    };
  }
  void ended() {
    const std::shared_ptr<message> last = std::move(self);
    const failure_handler handler = std::exchange(then, nullptr);
    if (handler && result) handler(failure ? *failure : error(result));
  }

  const peer_channel path;
  std::byte payload{};
  failure_handler then;
  std::shared_ptr<message> self;  // until the channel has completed it
};

loss_watch::loss_watch(const group& of, int peer, failure_handler what)
    : message_(std::make_shared<message>(of, peer, std::move(what))) {
  message_->deadline = operation::no_deadline;
  message_->self = message_;
  if (message_->path.on->start(*message_)) message_->ended();
}

loss_watch::~loss_watch() {
  message_->then = nullptr;
  if (message_->self && message_->at != operation::phase::done) {
    message_->path.on->cancel(*message_);
  }
}

}  // namespace tandem::detail
