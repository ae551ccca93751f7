#pragma once

#include <memory>
#include <tandem/channel.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/loop_owner.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "protocol/session.hpp"

namespace tandem::transport {

/// Fails an operation that a child of fork() starts on a channel of its parent.
inline bool refuse_in_child(operation& op) {
  op.failure = std::make_shared<const error>(detail::used_after_fork("this channel"));
  op.result = op.failure->code();
  op.move_to(operation::phase::done);
  return true;
}

/// Fails an operation that is started by another thread than the channel's.
inline bool refuse_elsewhere(operation& op, const detail::loop_owner& owner) {
  op.failure = std::make_shared<const error>(owner.wrong_thread("a call on a channel"));
  op.result = op.failure->code();
  op.move_to(operation::phase::done);
  return true;
}

/// The user's handle of a link, which outlives it: destroying the handle closes the link.
template <class Link>
class channel_handle final : public channel {
 public:
  explicit channel_handle(std::shared_ptr<Link> over)
      : owner_(over->get_executor()),
        link_(std::move(over)),
        limits_(as_channel_limits(link_->agreed())) {
    if constexpr (requires { link_->kinds(); }) limits_.kinds = link_->kinds();
    if constexpr (requires { link_->count_messages(); }) link_->count_messages();
  }
  ~channel_handle() override { close(); }
  asio::any_io_executor get_executor() const noexcept override { return link_->get_executor(); }
  const channel_limits& limits() const noexcept override { return limits_; }
  channel_stats stats() const noexcept override { return link_->stats(); }
  std::vector<rail_stats> rails() const override {
    if constexpr (requires { link_->rails(); }) {
      return link_->rails();
    } else {
      return {};
    }
  }
  bool is_zero_copy(const const_view& view) override {
    if constexpr (requires { link_->is_zero_copy(view); }) {
      return link_->is_zero_copy(view);
    } else {
      return false;
    }
  }
  memory_location locate_memory(const const_view& memory) override {
    if constexpr (requires { link_->locate_memory(memory); }) {
      require_here();
      return link_->locate_memory(memory);
    } else {
      return {};
    }
  }
  std::unique_ptr<const mapped_memory> map_memory(const memory_location& at, std::size_t bytes,
                                                  accelerator& by) override {
    if constexpr (requires { link_->map_memory(at, bytes, by); }) {
      require_here();
      return link_->map_memory(at, bytes, by);
    } else {
      return nullptr;
    }
  }
  void retire_freed_memory() override {
    if constexpr (requires { link_->retire_freed_memory(); }) {
      require_here();
      link_->retire_freed_memory();
    }
  }
  void fail(const error& reason) noexcept override {
    if (origin_.is_here()) link_->fail(reason, true);
  }
  bool start(operation& op) override {
    if (!origin_.is_here()) return refuse_in_child(op);
    return owner_.is_here() ? link_->start(op) : refuse_elsewhere(op, owner_);
  }
  bool spin_wait(operation& op) override {
    if constexpr (requires { link_->spin_wait(op); }) {
      return link_->spin_wait(op);
    } else {
      return false;
    }
  }
  void make_progress() override {
    if constexpr (requires { link_->make_progress(); }) link_->make_progress();
  }
  void cancel(operation& op) noexcept override {
    if (!origin_.is_here()) return;
    if (owner_.is_here()) return link_->cancel(op);
    log(log_level::error, "channel",
        owner_.wrong_thread("a cancellation, which is ignored").what());
  }

 private:
  void require_here() const {
    origin_.require_here("this channel");
    owner_.require_here("a call on a channel");
  }

  const detail::process_origin origin_;
  const detail::loop_owner owner_;
  std::shared_ptr<Link> link_;
  channel_limits limits_;
};

}  // namespace tandem::transport
