// The whole suite over connections that are encrypted, some of them with sockets so short that
// records wait for room again and again.

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/channels/tcp.hpp>

#include "conformance/channel_case.hpp"
#include "support/rails_rig.hpp"

namespace tandem::test {
namespace {

settings sealed_settings(settings options) {
  options.encrypt = true;
  options.job_secret = secret(std::string_view("a secret of this suite"));
  return options;
}

awaitable<channel_pair> connect_tcp(settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const settings sealing = sealed_settings(std::move(options));
  tcp::listener door(executor, "127.0.0.1", 0, sealing);
  channel_pair pair;
  pair.first = co_await tcp::connect("127.0.0.1", door.port(), sealing);
  pair.second = co_await door.accept();
  co_return pair;
}

awaitable<channel_pair> connect_narrow_tcp(settings options) {
  options.socket_buffer_bytes = 65536;
  return connect_tcp(std::move(options));
}

awaitable<channel_pair> connect_rails(settings options) {
  const settings sealing = sealed_settings(std::move(options));
  const std::shared_ptr<rails_rig> rig = co_await rails_rig::connect(sealing, 2);
  co_return rig->channels();
}

awaitable<channel_pair> connect_narrow_rails(settings options) {
  options.socket_buffer_bytes = 65536;
  return connect_rails(std::move(options));
}

awaitable<channel_pair> connect_cut(settings options) {
  const settings sealing = sealed_settings(std::move(options));
  const std::shared_ptr<rails_rig> rig = co_await rails_rig::connect(sealing, 2);
  rig->keep_cutting(10ms);
  co_return rig->channels();
}

INSTANTIATE_TEST_SUITE_P(
    sealed, channel_test,
    testing::Values(channel_case{"tcp_sealed", connect_tcp},
                    channel_case{"tcp_sealed_polled", connect_tcp, drive::by_spinning},
                    channel_case{"tcp_sealed_narrow", connect_narrow_tcp},
                    channel_case{"rails_sealed", connect_rails},
                    channel_case{"rails_sealed_polled", connect_rails, drive::by_spinning},
                    channel_case{"rails_sealed_narrow", connect_narrow_rails},
                    channel_case{"rails_sealed_cut", connect_cut}),
    case_name);

}  // namespace
}  // namespace tandem::test
