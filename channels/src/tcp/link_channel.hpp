#pragma once

#include <memory>
#include <tandem/channel.hpp>

#include "tcp/link.hpp"

namespace tandem::tcp {

/// The handle that users own: closing it closes the link.
class link_channel final : public channel {
 public:
  explicit link_channel(std::shared_ptr<link> over);
  ~link_channel() override;
  asio::any_io_executor get_executor() const noexcept override;
  const channel_limits& limits() const noexcept override { return limits_; }
  channel_stats stats() const noexcept override { return link_->state().stats(); }
  void fail(const error& reason) noexcept override;
  bool start(operation& op) override { return link_->start(op); }
  void cancel(operation& op) noexcept override { link_->cancel(op); }

 private:
  std::shared_ptr<link> link_;
  channel_limits limits_;
};

}  // namespace tandem::tcp
