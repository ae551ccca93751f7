#include "transports/shm/connect.hpp"

#include <fmt/format.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/quiet.hpp>
#include <tandem/detail/resources.hpp>

namespace tandem::shm {
namespace {

using detail::quiet;

error unreachable_error(const std::string& name, const error_code& failure, const std::string& why,
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
std::optional<error> prepare_socket(control_socket& socket, const settings& options, int ranks) {
  try {
    socket.shared = memory::create(ring_bytes_for(options.shm_ring_bytes, ranks));
  } catch (const error& shortage) {
    if (shortage.code() != errc::limit_exceeded) throw;
    return shortage;
  }
  error_code failure;
  detail::open(socket, asio::local::stream_protocol(), failure);
  if (!failure) return std::nullopt;
  if (!detail::is_exhausted(failure, detail::resource::descriptor)) throw error(failure);
  return detail::exhausted(failure.value(), detail::resource::descriptor,
                           "cannot open a socket to a rank on this host");
}

}  // namespace

asio::awaitable<control_socket> connect_and_handshake(std::string name,
                                                      transport::hello local_hello, secret key,
                                                      settings options, transport::hello& answer) {
  local_hello.keyed = !key.empty();
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto began = std::chrono::steady_clock::now();
  const auto give_up_at = began + options.meet_timeout;
  const auto where = abstract_endpoint(name);
  std::chrono::milliseconds pause{10};
  asio::steady_timer timer(executor);
  for (;;) {
    control_socket socket(executor);
    error_code failure;
    const std::optional<error> shortage = prepare_socket(socket, options, local_hello.size);
    if (!shortage) {
      const auto [refused] = co_await socket.async_connect(where, quiet);
      failure = refused;
    }
    if (failure == asio::error::operation_aborted) throw error(failure);
    std::string why;
    if (!failure && !shortage) {
      if (!is_own_user(socket)) {
        throw error(errc::not_trusted, fmt::format("'{}' belongs to another user", name),
                    "start every rank of a host as the same user");
      }
      bool known = false;
      sealed::keys none;
      co_await with_deadline(
          transport::handshake_timeout,
          transport::client_handshake(socket, local_hello, key, name, answer, none, why, known),
          "hello of " + name, "is a Tandem rank listening there?");
      if (known) co_return socket;
    }
    const bool may_retry = failure || shortage || why == transport::closed_before_handshake;
    const auto next = std::chrono::steady_clock::now() + pause;
    if (shortage && (next - began >= transport::exhaustion_timeout || next >= give_up_at))
      throw error(*shortage);
    if (!may_retry || next >= give_up_at) {
      throw unreachable_error(name, failure, why, options);
    }
    timer.expires_after(pause);
    co_await timer.async_wait(asio::use_awaitable);
    pause = std::min(pause * 2, std::chrono::milliseconds(200));
  }
}

std::shared_ptr<link> make_link(control_socket socket, int side,
                                const transport::hello& local_hello,
                                const transport::hello& remote_hello, const settings& options) {
  const std::string rail = fmt::format("shm process {}", pid_of_peer(socket));
  auto made = std::make_shared<link>(std::move(socket), side, options.shm_single_copy,
                                     protocol::agreed(local_hello.limits, remote_hello.limits),
                                     transport::identity_of(local_hello, remote_hello, rail),
                                     options.operation_timeout);
  made->run();
  return made;
}

asio::awaitable<std::unique_ptr<channel>> connect(std::string name, settings options) {
  transport::hello local_hello;
  local_hello.limits = protocol::offered(options);
  transport::hello answer;
  const secret key = transport::pair_key(options);
  control_socket socket =
      co_await connect_and_handshake(std::move(name), local_hello, key, options, answer);
  std::shared_ptr<link> made = make_link(std::move(socket), 0, local_hello, answer, options);
  co_return std::make_unique<link_channel>(std::move(made));
}

}  // namespace tandem::shm
