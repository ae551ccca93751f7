#include "conformance/shm_peer.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace tandem::test {

awaitable<channel_pair> connect_shm(settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  shm::listener listener(executor, "", options);
  channel_pair pair;
  pair.first = co_await shm::connect(listener.name(), options);
  pair.second = co_await listener.accept();
  co_return pair;
}

void hostile_memory::ring_doorbell() {
  const char byte = 1;
  ::send(peer.native_handle(), &byte, 1, MSG_NOSIGNAL);
}

awaitable<hostile_memory> connect_hostile_memory(settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  shm::listener listener(executor, "", options);
  transport::hello local;
  local.limits = protocol::offered(options);
  transport::hello answer;
  shm::control_socket peer =
      co_await shm::connect_and_handshake(listener.name(), local, secret(), options, answer);
  std::unique_ptr<channel> made = co_await listener.accept();
  co_return hostile_memory{std::move(made), std::move(peer)};
}

pid_t start_shm_peer(awaitable<void> (*live)(std::string name, settings options), std::string name,
                     settings options) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  {
    asio::io_context context{1};
    asio::co_spawn(context, live(std::move(name), std::move(options)), asio::detached);
    context.run();
  }
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace tandem::test
