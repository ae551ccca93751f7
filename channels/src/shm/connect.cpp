#include "shm/connect.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <fstream>
#include <optional>
#include <tandem/channels/shm.hpp>
#include <tandem/deadline.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/quiet.hpp>
#include <tandem/detail/resources.hpp>

namespace tandem::shm {
namespace {

using detail::quiet;

error no_answer(const std::string& name, const error_code& failure, const std::string& why,
                const settings& options) {
  if (!failure) {
    return error(errc::not_tandem,
                 fmt::format("'{}' answered but is not a Tandem rank: {}", name, why),
                 "is the name right?");
  }
  return error(errc::unreachable,
               fmt::format("no listener named '{}' on this host within {}: {}", name,
                           detail::to_text(options.meet_timeout), failure.message()),
               "is the peer running, on this host and in the same container?");
}

/// Creates the shared memory and opens the socket. The error is a shortage that may pass, as other
/// ranks connect at the same time.
std::optional<error> give_what_it_needs(guest_socket& socket, const settings& options, int ranks) {
  try {
    socket.shared = memory::create(ring_bytes_for(options.shm_ring_bytes, ranks));
  } catch (const error& lack) {
    if (lack.code() != errc::limit_exceeded) throw;
    return lack;
  }
  error_code failure;
  detail::open(socket, asio::local::stream_protocol(), failure);
  if (!failure) return std::nullopt;
  if (!detail::is_exhausted(failure, detail::resource::descriptor)) throw error(failure);
  return detail::exhausted(failure.value(), detail::resource::descriptor,
                           "cannot open a socket to a rank on this host");
}

}  // namespace

asio::awaitable<guest_socket> dial(std::string name, tcp::hello mine, secret key, settings options,
                                   tcp::hello& answer) {
  mine.keyed = !key.empty();
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto began = std::chrono::steady_clock::now();
  const auto give_up = began + options.meet_timeout;
  const auto where = abstract_endpoint(name);
  std::chrono::milliseconds pause{10};
  asio::steady_timer timer(executor);
  for (;;) {
    guest_socket socket(executor);
    error_code failure;
    const std::optional<error> lack = give_what_it_needs(socket, options, mine.size);
    if (!lack) {
      const auto [refused] = co_await socket.async_connect(where, quiet);
      failure = refused;
    }
    if (failure == asio::error::operation_aborted) throw error(failure);
    std::string why;
    if (!failure && !lack) {
      if (!is_own_user(socket)) {
        throw error(errc::not_trusted, fmt::format("'{}' belongs to another user", name),
                    "start every rank of a host as the same user");
      }
      bool known = false;
      sealed::keys none;
      co_await with_deadline(tcp::hello_limit,
                             tcp::introduce(socket, mine, key, name, answer, none, why, known),
                             "hello of " + name, "is a Tandem rank listening there?");
      if (known) co_return socket;
    }
    const bool is_silent = failure || lack || why == tcp::closed_at_once;
    const auto next = std::chrono::steady_clock::now() + pause;
    if (lack && (next - began >= tcp::longest_lack || next >= give_up)) throw error(*lack);
    if (!is_silent || next >= give_up) {
      throw no_answer(name, failure, why, options);
    }
    timer.expires_after(pause);
    co_await timer.async_wait(asio::use_awaitable);
    pause = std::min(pause * 2, std::chrono::milliseconds(200));
  }
}

std::shared_ptr<link> make_link(guest_socket socket, int side, const tcp::hello& mine,
                                const tcp::hello& theirs, const settings& options) {
  const std::string rail = fmt::format("shm process {}", pid_of_peer(socket));
  const int peer = mine.size == 0 ? -1 : (mine.to >= 0 ? mine.to : theirs.from);
  auto made =
      std::make_shared<link>(std::move(socket), side, options.shm_single_copy,
                             protocol::agreed(mine.limits, theirs.limits),
                             protocol::identity{mine.from, peer, rail}, options.operation_timeout);
  made->run();
  return made;
}

std::string host_identity() {
  std::string boot;
  errno = 0;
  std::ifstream from("/proc/sys/kernel/random/boot_id");
  if (!from.is_open() && detail::is_exhausted(errno, detail::resource::descriptor)) {
    throw detail::exhausted(errno, detail::resource::descriptor,
                            "cannot read the boot id of this host");
  }
  from >> boot;
  struct stat network {};
  ::stat("/proc/self/ns/net", &network);
  return fmt::format("{}:{}", boot, network.st_ino);
}

asio::awaitable<std::unique_ptr<channel>> connect(std::string name, settings options) {
  tcp::hello mine;
  mine.limits = protocol::offered(options);
  tcp::hello answer;
  const secret key = tcp::pair_key(options);
  guest_socket socket = co_await dial(std::move(name), mine, key, options, answer);
  std::shared_ptr<link> made = make_link(std::move(socket), 0, mine, answer, options);
  co_return std::make_unique<link_channel>(std::move(made));
}

}  // namespace tandem::shm
