// The channel suite over encrypted connections, some of them with socket buffers so small that
// records are often sent in parts.

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/channels.hpp>

#include "conformance/pairs.hpp"
#include "support/channel_case.hpp"
#include "support/rails_rig.hpp"

namespace tandem::test {
namespace {

settings sealed_settings(settings options) {
  options.encrypt = true;
  options.job_secret = secret(std::string_view("a secret of this suite"));
  return options;
}

awaitable<channel_pair> connect_sealed_tcp(settings options) {
  return pair_over_tcp(sealed_settings(std::move(options)));
}

awaitable<channel_pair> connect_narrow_tcp(settings options) {
  options.socket_buffer_bytes = 65536;
  return connect_sealed_tcp(std::move(options));
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

awaitable<channel_pair> connect_sealed_cut(settings options) {
  const settings sealing = sealed_settings(std::move(options));
  const std::shared_ptr<rails_rig> rig = co_await rails_rig::connect(sealing, 2);
  rig->keep_cutting(10ms);
  co_return rig->channels();
}

INSTANTIATE_TEST_SUITE_P(
    sealed, channel_test,
    testing::Values(channel_case{"tcp_sealed", connect_sealed_tcp},
                    channel_case{"tcp_sealed_polled", connect_sealed_tcp, drive::by_spinning},
                    channel_case{"tcp_sealed_narrow", connect_narrow_tcp},
                    channel_case{"rails_sealed", connect_rails},
                    channel_case{"rails_sealed_polled", connect_rails, drive::by_spinning},
                    channel_case{"rails_sealed_narrow", connect_narrow_rails},
                    channel_case{"rails_sealed_cut", connect_sealed_cut, drive::by_asio, true,
                                 false}),
    case_name);

}  // namespace
}  // namespace tandem::test
