#pragma once

#include <functional>
#include <memory>
#include <tandem/detail/flight.hpp>
#include <utility>
#include <vector>

namespace tandem::detail {

/// A message of a watch, without a coroutine. Keeps itself alive until the channel has completed
/// it: its watch may have ended by then.
template <class Payload>
class kept_message : public operation {
 public:
  /// Called at most once, on the channel's executor.
  using handler = std::function<void(kept_message&)>;

  kept_message(kind as, peer_channel with, flow_id on) : path(with) {
    what = as;
    flow = on;
    view = mutable_view(&payload, sizeof payload);
    complete = [](operation& op) { static_cast<kept_message&>(op).ended(); };
    destroy = [](operation& op) noexcept {
      const std::shared_ptr<kept_message> last = std::move(static_cast<kept_message&>(op).self_);
    };
  }

  static void start(const std::shared_ptr<kept_message>& which, handler then) {
    which->self_ = which;
    which->then_ = std::move(then);
    if (which->path.on->start(*which)) which->ended();
  }
  /// Cancels it, and calls no handler.
  void drop() noexcept {
    then_ = nullptr;
    if (self_ && at != phase::done) path.on->cancel(*this);
  }

  Payload payload{};
  const peer_channel path;

 private:
  void ended() {
    const std::shared_ptr<kept_message> last = std::move(self_);
    if (const handler then = std::exchange(then_, nullptr)) then(*this);
  }

  handler then_;
  std::shared_ptr<kept_message> self_;
};

/// Messages of a watch that are on their way: it drops them at its end.
template <class Payload>
class kept_messages {
 public:
  using message = kept_message<Payload>;

  kept_messages() = default;
  ~kept_messages() { drop(); }
  kept_messages(const kept_messages&) = delete;
  kept_messages& operator=(const kept_messages&) = delete;

  void start(std::shared_ptr<message> which, typename message::handler then) {
    std::erase_if(all_, [](const auto& each) { return each.expired(); });
    all_.push_back(which);
    message::start(which, std::move(then));
  }
  void drop() noexcept {
    for (const auto& each : std::exchange(all_, {})) {
      if (const std::shared_ptr<message> left = each.lock()) left->drop();
    }
  }

 private:
  std::vector<std::weak_ptr<message>> all_;
};

}  // namespace tandem::detail
