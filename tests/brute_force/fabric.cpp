// Ranks that meet through the store and connect, stopped after each handler.

#include <gtest/gtest.h>

#include <boost/asio/use_awaitable.hpp>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/store.hpp>

#include "brute_force/stepping.hpp"
#include "support/channel_case.hpp"
#include "support/fabric_maker.hpp"
#include "support/reserved_port.hpp"

namespace tandem::test {
namespace {

struct job_case {
  std::string name;
  fabric_maker make;
  settings options;
};

awaitable<void> run_rank(launch_info who, fabric_maker make, settings options) {
  std::shared_ptr<store> rendezvous = co_await store::meet(who, options);
  std::unique_ptr<fabric> self = co_await make(std::move(rendezvous), options);
  channel& other = co_await self->to(1 - who.rank);
  const auto me = static_cast<std::uint64_t>(who.rank);
  std::vector<awaitable<void>> both;
  both.push_back(send_pattern(other, 0, 100'000, me));
  both.push_back(recv_pattern(other, 0, 100'000, 1 - me));
  co_await when_all(std::move(both));
  self->close();
}

settings trusted() {
  settings options;
  options.job_secret = secret(std::string_view("a secret of this job"));
  return options;
}

awaitable<void> two_ranks(std::uint16_t port, job_case of) {
  launch_info who;
  who.size = who.local_size = 2;
  who.address = "127.0.0.1";
  who.port = port;
  who.job = "brute force";
  std::vector<awaitable<void>> ranks;
  for (who.rank = 0; who.rank < 2; ++who.rank) ranks.push_back(run_rank(who, of.make, of.options));
  co_await when_all(std::move(ranks));
}

class brute_force_fabric : public testing::TestWithParam<job_case> {};
INSTANTIATE_TEST_SUITE_P(over, brute_force_fabric,
                         testing::Values(job_case{"tcp_in_the_clear", make_one, {}},
                                         job_case{"tcp_by_secret", make_one, trusted()},
                                         job_case{"mixed_within", mixed::make_fabric, {}},
                                         job_case{"mixed_across", make_mixed, {}}),
                         [](const auto& which) { return which.param.name; });

TEST_P(brute_force_fabric, stopped_by_destroying_the_loop) {
  for (std::uint64_t steps = 0;; steps = next_stop(steps)) {
    const reserved_port port;
    stepping loop;
    loop.start(two_ranks(port.number(), GetParam()));
    loop.step(steps);
    if (HasFailure()) return;
    if (!loop.is_over()) continue;
    EXPECT_FALSE(loop.failure()) << loop.failure()->what();
    break;
  }
}

TEST_P(brute_force_fabric, stopped_by_cancelling) {
  for (std::uint64_t steps = 0;; steps = next_stop(steps)) {
    SCOPED_TRACE("after " + std::to_string(steps) + " steps");
    const reserved_port port;
    stepping loop;
    loop.start(two_ranks(port.number(), GetParam()));
    loop.step(steps);
    if (loop.is_over()) break;
    loop.cancel();
    ASSERT_TRUE(loop.finish()) << "still waiting after it was cancelled";
    // A rank may fail because the other one has ended, before it is cancelled itself.
    if (loop.failure()) {
      const error_code code = loop.failure()->code();
      EXPECT_TRUE(code == asio::error::operation_aborted || code == errc::peer_lost)
          << loop.failure()->what();
    }
  }
}

}  // namespace
}  // namespace tandem::test
