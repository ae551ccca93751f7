// The coroutine interface of `device_watch`, and `hold`.
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <tandem/accelerator.hpp>
#include <tandem/detail/waiting.hpp>
#include <utility>

#include "accelerator/stream_hold_words.hpp"

namespace tandem {
namespace {

/// A wait in the frame of the coroutine that waits.
struct awaited_wait : device_wait {
  explicit awaited_wait(asio::any_io_executor on) : watch_executor(std::move(on)) {
    done = [](device_wait& wait, const std::shared_ptr<const error>& why) {
      auto& self = static_cast<awaited_wait&>(wait);
      self.failure = why;
      detail::resume(self.handler, self.watch_executor);
    };
    destroy = [](device_wait& wait) noexcept {
      // The handler owns the frame that this object lives in.
      const std::optional<detail::waiting_handler> last =
          std::move(static_cast<awaited_wait&>(wait).handler);
    };
  }

  asio::any_io_executor watch_executor;
  std::optional<detail::waiting_handler> handler;
  std::shared_ptr<const error> failure;
};

struct suspend_until {
  awaited_wait* wait;
  void operator()(detail::waiting_handler handler) const {
    wait->handler.emplace(std::move(handler));
  }
};

}  // namespace

asio::awaitable<void> device_watch::reached(accelerator::stream stream) {
  const asio::any_io_executor executor = get_executor();
  awaited_wait wait(executor);
  after(stream, wait);
  const suspend_until suspend{&wait};
  co_await asio::async_initiate<const asio::use_awaitable_t<>&, void()>(suspend,
                                                                        asio::use_awaitable);
  if (wait.failure) throw error(*wait.failure);
}

stream_hold device_watch::hold(accelerator::stream stream) {
  if (!words_) words_ = std::make_shared<stream_hold::words>(of());
  stream_hold made;
  made.which_ = words_->take(stream);
  made.of_ = words_;
  return made;
}

}  // namespace tandem
