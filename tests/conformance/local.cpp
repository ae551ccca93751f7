#include "conformance/pairs.hpp"
#include "support/channel_case.hpp"

namespace tandem::test {
namespace {

INSTANTIATE_TEST_SUITE_P(local, channel_test,
                         testing::Values(channel_case{"local", pair_over_local}), case_name);

}  // namespace
}  // namespace tandem::test
