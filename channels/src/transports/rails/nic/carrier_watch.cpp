#include "transports/rails/nic/carrier_watch.hpp"

#include <fmt/format.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/system/error_code.hpp>
#include <cerrno>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "transports/rails/nic/nic_links.hpp"

namespace tandem::rails {
namespace {

int open_netlink_socket() {
  const int handle = detail::open_socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_ROUTE);
  if (handle < 0) return -1;
  sockaddr_nl local{};
  local.nl_family = AF_NETLINK;
  local.nl_groups = RTMGRP_LINK;
  if (::bind(handle, reinterpret_cast<const sockaddr*>(&local), sizeof local) == 0) return handle;
  const int why = errno;
  ::close(handle);
  errno = why;
  return -1;
}

}  // namespace

struct carrier_watch::state : std::enable_shared_from_this<state> {
  state(asio::any_io_executor executor, handler on_lost)
      : socket(std::move(executor)), lost(std::move(on_lost)) {}

  void wait() {
    socket.async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](boost::system::error_code failure) {
                        if (failure) return;
                        self->read();
                        if (self->lost) self->wait();
                      });
  }

  void read() {
    alignas(nlmsghdr) char buffer[32 * 1024];
    while (lost) {
      sockaddr_nl from{};
      socklen_t length = sizeof from;
      const ssize_t got = ::recvfrom(socket.native_handle(), buffer, sizeof buffer, 0,
                                     reinterpret_cast<sockaddr*>(&from), &length);
      if (got < 0 && errno == EINTR) continue;
      // ENOBUFS: messages were lost; heartbeats find the links that they were about.
      if (got <= 0) return;
      if (from.nl_pid != 0) continue;  // not from the kernel
      auto left = static_cast<std::size_t>(got);
      for (const auto* m = reinterpret_cast<const nlmsghdr*>(buffer); NLMSG_OK(m, left);
           m = NLMSG_NEXT(m, left)) {
        judge(m);
      }
    }
  }

  void judge(const nlmsghdr* message) {
    if (message->nlmsg_type != RTM_NEWLINK && message->nlmsg_type != RTM_DELLINK) return;
    if (message->nlmsg_len < NLMSG_LENGTH(sizeof(ifinfomsg))) return;
    const kernel_link about = read_link(message);
    const bool carries =
        message->nlmsg_type == RTM_NEWLINK && about.carrier && (about.flags & IFF_UP) != 0;
    // The handler may end the watch.
    const handler call = lost;
    if (!carries && call) call(about.index);
  }

  asio::posix::stream_descriptor socket;
  handler lost;
};

carrier_watch::carrier_watch(asio::any_io_executor executor, handler on_lost)
    : state_(std::make_shared<state>(std::move(executor), std::move(on_lost))) {
  const int handle = open_netlink_socket();
  if (handle < 0) {
    log(log_level::info, "rails",
        fmt::format("no link-down events from the kernel ({}): only heartbeats find lost links",
                    detail::failure_text(errno, detail::resource::descriptor)));
    return;
  }
  boost::system::error_code ignored;
  state_->socket.assign(handle, ignored);
  state_->wait();
}

carrier_watch::~carrier_watch() {
  state_->lost = nullptr;
  boost::system::error_code ignored;
  state_->socket.close(ignored);
}

bool carrier_watch::is_watching() const noexcept {
  return state_->socket.is_open();
}

}  // namespace tandem::rails
