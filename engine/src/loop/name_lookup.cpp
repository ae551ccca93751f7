#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/name_lookup.hpp>
#include <tandem/detail/owned_descriptor.hpp>
#include <tandem/detail/resources.hpp>
#include <utility>

namespace tandem::detail {
namespace asio = boost::asio;

std::optional<asio::ip::address> numeric_address(const std::string& host) {
  boost::system::error_code is_name;
  const asio::ip::address address = asio::ip::make_address(host, is_name);
  if (is_name) return {};
  return unmapped(address);
}

asio::ip::address unmapped(const asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
}

name_addresses resolve_now(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  name_addresses all;
  if (failed != 0) {
    all.why_none = failed == EAI_SYSTEM ? errno_text(errno) : ::gai_strerror(failed);
    return all;
  }
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    asio::ip::tcp::endpoint where;
    if (one->ai_addrlen > where.capacity()) continue;
    std::memcpy(where.data(), one->ai_addr, one->ai_addrlen);
    where.resize(one->ai_addrlen);
    const asio::ip::address address = unmapped(where.address());
    if (std::find(all.found.begin(), all.found.end(), address) == all.found.end()) {
      all.found.push_back(address);
    }
  }
  ::freeaddrinfo(list);
  if (all.found.empty()) all.why_none = "it has no address";
  return all;
}

/// The thread may outlive the look-up and its context: it has the descriptor, not the executor.
struct name_lookup::question {
  explicit question(std::string name)
      : host(std::move(name)), descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!descriptor.is_open()) {
      throw system_failure(errno, resource::descriptor, "cannot create an eventfd for a look-up");
    }
  }
  void ask() {
    name_addresses found = resolve_now(host);
    const std::lock_guard lock(mutex);
    answer = std::move(found);
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(descriptor.get(), &one, sizeof one);
  }

  const std::string host;
  const owned_descriptor descriptor;
  std::mutex mutex;
  std::optional<name_addresses> answer;
};

struct name_lookup::notification {
  explicit notification(const asio::any_io_executor& executor)
      : readable(executor), timer(executor) {}
  asio::posix::stream_descriptor readable;
  asio::steady_timer timer;
};

name_lookup::name_lookup(const asio::any_io_executor& executor, const std::string& host)
    : question_(std::make_shared<question>(host)),
      notification_(std::make_shared<notification>(executor)) {
  const int duplicate = ::fcntl(question_->descriptor.get(), F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) {
    throw system_failure(errno, resource::descriptor, "cannot duplicate an eventfd");
  }
  notification_->readable.assign(duplicate);
  run_detached(fmt::format("to resolve host '{}'", host),
               [question = question_] { question->ask(); });
}

name_lookup::~name_lookup() = default;

std::optional<name_addresses> name_lookup::answer() const {
  const std::lock_guard lock(question_->mutex);
  return question_->answer;
}

asio::awaitable<std::optional<name_addresses>> name_lookup::until(
    std::chrono::steady_clock::time_point deadline) {
  // The handler may run after this coroutine has ended.
  const std::shared_ptr<notification> on = notification_;
  on->timer.expires_at(deadline);
  on->timer.async_wait([on](const boost::system::error_code& cancelled) {
    boost::system::error_code ignored;
    if (!cancelled) on->readable.cancel(ignored);
  });
  boost::system::error_code ignored;
  co_await on->readable.async_wait(asio::posix::stream_descriptor::wait_read,
                                   asio::redirect_error(asio::use_awaitable, ignored));
  on->timer.cancel();
  co_return answer();
}

}  // namespace tandem::detail
