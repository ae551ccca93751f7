// The whole suite over two lanes, over one, and over two that are cut again and again.

#include <boost/asio/use_awaitable.hpp>

#include "conformance/channel_case.hpp"
#include "support/rails_rig.hpp"

namespace tandem::test {
namespace {

awaitable<channel_pair> connect_two(settings options) {
  const std::shared_ptr<rails_rig> rig = co_await rails_rig::connect(options, 2);
  co_return rig->channels();
}

awaitable<channel_pair> connect_one(settings options) {
  const std::shared_ptr<rails_rig> rig = co_await rails_rig::connect(options, 1);
  co_return rig->channels();
}

awaitable<channel_pair> connect_cut(settings options) {
  const std::shared_ptr<rails_rig> rig = co_await rails_rig::connect(options, 2);
  rig->keep_cutting(10ms);
  co_return rig->channels();
}

INSTANTIATE_TEST_SUITE_P(
    rails, channel_test,
    testing::Values(channel_case{"rails", connect_two}, channel_case{"rails_of_one", connect_one},
                    channel_case{"rails_polled", connect_two, drive::by_spinning},
                    channel_case{"rails_cut", connect_cut}),
    case_name);

}  // namespace
}  // namespace tandem::test
