#include "transports/rails/nic/nic_links.hpp"

#include <fmt/format.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstring>

namespace tandem::rails {
namespace {

[[noreturn]] void fail(int number) {
  throw boost::system::system_error(number, boost::system::system_category(),
                                    "rtnetlink request for network interfaces");
}

class netlink_socket {
 public:
  netlink_socket() : handle_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {
    if (handle_ < 0) fail(errno);
    // The kernel replies within the request; a sandbox that never replies must not block us.
    const timeval limit{5, 0};
    ::setsockopt(handle_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~netlink_socket() { ::close(handle_); }
  netlink_socket(const netlink_socket&) = delete;
  netlink_socket& operator=(const netlink_socket&) = delete;

  void ask_for_links() const {
    struct {
      nlmsghdr header{};
      ifinfomsg body{};
    } question;
    question.header.nlmsg_len = sizeof question;
    question.header.nlmsg_type = RTM_GETLINK;
    question.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    if (::send(handle_, &question, sizeof question, 0) < 0) fail(errno);
  }

  std::size_t receive(void* into, std::size_t bytes) const {
    while (true) {
      const ssize_t got = ::recv(handle_, into, bytes, 0);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) fail(errno);
    }
  }

 private:
  int handle_;
};

int number(const rtattr* from) {
  int value = 0;
  std::memcpy(&value, RTA_DATA(from), std::min(sizeof value, std::size_t{RTA_PAYLOAD(from)}));
  return value;
}

std::string text(const rtattr* from) {
  const char* const start = static_cast<const char*>(RTA_DATA(from));
  return {start, ::strnlen(start, RTA_PAYLOAD(from))};
}

std::string hexadecimal(const rtattr* from) {
  std::string out;
  const auto* const bytes = static_cast<const unsigned char*>(RTA_DATA(from));
  for (std::size_t i = 0; i < RTA_PAYLOAD(from); ++i) {
    out += fmt::format("{}{:02x}", i == 0 ? "" : ":", unsigned{bytes[i]});
  }
  return out;
}

void read_attribute(const rtattr* one, kernel_link& into) {
  switch (one->rta_type) {
    case IFLA_IFNAME:
      into.name = text(one);
      break;
    case IFLA_ADDRESS:
      into.mac = hexadecimal(one);
      break;
    case IFLA_MTU:
      into.mtu = number(one);
      break;
    case IFLA_CARRIER:
      into.carrier = number(one) != 0;
      break;
    case IFLA_MASTER:
      into.master = number(one);
      break;
    case IFLA_LINK:
      into.parent = number(one);
      break;
    case IFLA_LINK_NETNSID:
      into.parent_outside = true;
      break;
    case IFLA_LINKINFO: {
      int left = static_cast<int>(RTA_PAYLOAD(one));
      for (const auto* a = static_cast<const rtattr*>(RTA_DATA(one)); RTA_OK(a, left);
           a = RTA_NEXT(a, left)) {
        if (a->rta_type == IFLA_INFO_KIND) into.driver = text(a);
      }
      break;
    }
    default:
      break;
  }
}

}  // namespace

kernel_link read_link(const nlmsghdr* message) {
  kernel_link found;
  const auto* const body = static_cast<const ifinfomsg*>(NLMSG_DATA(message));
  found.index = body->ifi_index;
  found.flags = body->ifi_flags;
  found.type = body->ifi_type;
  int left = static_cast<int>(IFLA_PAYLOAD(message));
  for (const rtattr* a = IFLA_RTA(body); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
    read_attribute(a, found);
  }
  return found;
}

std::vector<kernel_link> find_links() {
  const netlink_socket kernel;
  kernel.ask_for_links();
  std::vector<kernel_link> all;
  // rtnetlink(7): 32 KiB is the maximum that the kernel puts into one message of a dump.
  std::vector<char> buffer(32 * 1024);
  while (true) {
    std::size_t left = kernel.receive(buffer.data(), buffer.size());
    if (left == 0) fail(EPIPE);
    for (const auto* m = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(m, left);
         m = NLMSG_NEXT(m, left)) {
      if (m->nlmsg_type == NLMSG_DONE) return all;
      if (m->nlmsg_type == NLMSG_ERROR) {
        fail(-static_cast<const nlmsgerr*>(NLMSG_DATA(m))->error);
      }
      if (m->nlmsg_type == RTM_NEWLINK) all.push_back(read_link(m));
    }
  }
}

}  // namespace tandem::rails
