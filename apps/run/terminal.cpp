#include "terminal.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "process.hpp"

namespace tandem::launcher {
namespace asio = boost::asio;

terminal_watch::terminal_watch(asio::io_context& loop, std::initializer_list<int> descriptors)
    : hangup_(loop) {
  owned_fd set(::epoll_create1(EPOLL_CLOEXEC));
  bool any = false;
  for (const int one : descriptors) {
    if (::isatty(one) == 0) continue;
    epoll_event hangup_only{};
    any = ::epoll_ctl(set.get(), EPOLL_CTL_ADD, one, &hangup_only) == 0 || any;
  }
  if (any) hangup_.assign(set.release());
}

asio::awaitable<bool> terminal_watch::hung_up() {
  if (!hangup_.is_open()) co_return false;
  const auto [failed] = co_await hangup_.async_wait(asio::posix::stream_descriptor::wait_read,
                                                    asio::as_tuple(asio::use_awaitable));
  co_return !failed;
}

void terminal_watch::cancel() {
  if (hangup_.is_open()) hangup_.cancel();
}

}  // namespace tandem::launcher
