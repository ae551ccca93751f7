#include "tcp/link_channel.hpp"

#include <utility>

namespace tandem::tcp {

link_channel::link_channel(std::shared_ptr<link> over)
    : link_(std::move(over)), limits_(protocol::as_channel_limits(link_->state().agreed())) {}

link_channel::~link_channel() {
  close();
}

asio::any_io_executor link_channel::get_executor() const noexcept {
  return link_->get_executor();
}

void link_channel::fail(const error& reason) noexcept {
  link_->fail(reason, true);
}

}  // namespace tandem::tcp
