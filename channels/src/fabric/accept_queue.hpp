#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <deque>
#include <memory>
#include <tandem/async.hpp>
#include <tandem/channel.hpp>
#include <utility>

namespace tandem::transport {

/// Channels that a listener has accepted and nobody has taken yet. On one executor.
class accept_queue {
 public:
  explicit accept_queue(asio::any_io_executor executor) : ready_(std::move(executor)) {}

  void push(std::unique_ptr<channel> accepted) {
    accepted_.push_back(std::move(accepted));
    ready_.notify_all();
  }
  /// Waits for the next channel; `self` stays until then. @par Errors `errc::channel_closed`, from
  /// `close` on.
  static asio::awaitable<std::unique_ptr<channel>> pop(std::shared_ptr<accept_queue> self) {
    while (self->accepted_.empty()) {
      if (self->closed_) throw error(errc::channel_closed, "the listener is closed");
      co_await self->ready_.wait();
    }
    std::unique_ptr<channel> first = std::move(self->accepted_.front());
    self->accepted_.pop_front();
    co_return first;
  }
  void close() noexcept {
    closed_ = true;
    accepted_.clear();
    ready_.notify_all();
  }

 private:
  async_condition ready_;
  std::deque<std::unique_ptr<channel>> accepted_;
  bool closed_ = false;
};

}  // namespace tandem::transport
