#include "conformance/pairs.hpp"
#include "support/channel_case.hpp"

namespace tandem::test {
namespace {

INSTANTIATE_TEST_SUITE_P(tcp, channel_test,
                         testing::Values(channel_case{"tcp", pair_over_tcp, drive::by_asio},
                                         channel_case{"tcp_polled", pair_over_tcp,
                                                      drive::by_spinning}),
                         case_name);

}  // namespace
}  // namespace tandem::test
