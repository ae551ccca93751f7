// A few seconds of random faults, one after the other and two at once, under messages of random
// length: each arrives once and complete, every lane comes back, and no object of a dead lane is
// left. A new seed for each run: a run that fails prints it, and TANDEM_TEST_SEED sets it.
// tests/roce/soak does the same for an hour with a kernel's devices.

#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "support/traffic.hpp"
#include "support/verbs_rig.hpp"
#include "verbs/object_counts.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t lanes = 3, rdma_lanes = 2;  // the third is TCP
constexpr auto how_long = 3s;
constexpr std::size_t least_struck = 10;

std::uint32_t chosen_seed() {
  const char* const said = std::getenv("TANDEM_TEST_SEED");
  const std::uint32_t seed =
      said != nullptr ? static_cast<std::uint32_t>(std::atoll(said)) : std::random_device()();
  std::printf("TANDEM_TEST_SEED=%u\n", seed);
  return seed;
}

/// One of the devices, each of which has an address of its own.
struct victim {
  int side = 0;
  std::size_t lane = 0;
  std::string device() const { return rdma_network::device_name(side, lane); }
  rdma_double::gid gid(int last) const {
    return rdma_double::roce("10.0." + std::to_string(lane) + "." + std::to_string(last), 1);
  }
};

struct disturbance {
  const char* name;
  void (*strike)(rdma_double& on, const victim& whom);
  void (*heal)(rdma_double& on, const victim& whom);
};

void nothing(rdma_double&, const victim&) {}

template <ibv_wc_status Status>
void fail_one(rdma_double& on, const victim& whom) {
  on.fail_next_wr(Status, whom.device());
}

constexpr disturbance disturbances[] = {
    {"link", [](rdma_double& on, const victim& v) { on.drop_link(v.device()); },
     [](rdma_double& on, const victim& v) { on.restore_link(v.device()); }},
    {"device", [](rdma_double& on, const victim& v) { on.fail_device(v.device()); },
     [](rdma_double& on, const victim& v) { on.restore_device(v.device()); }},
    {"removed", [](rdma_double& on, const victim& v) { on.remove_device(v.device()); },
     [](rdma_double& on, const victim& v) { on.restore_device(v.device()); }},
    {"acks", [](rdma_double& on, const victim& v) { on.drop_acks(v.device(), true); },
     [](rdma_double& on, const victim& v) { on.drop_acks(v.device(), false); }},
    {"late", [](rdma_double& on, const victim& v) { on.delay_packets(v.device(), true); },
     [](rdma_double& on, const victim& v) { on.delay_packets(v.device(), false); }},
    {"held", [](rdma_double& on, const victim& v) { on.hold(v.device(), true); },
     [](rdma_double& on, const victim& v) { on.hold(v.device(), false); }},
    {"gids", [](rdma_double& on, const victim& v) { on.change_gids(v.device(), {v.gid(99)}); },
     [](rdma_double& on, const victim& v) { on.change_gids(v.device(), {v.gid(v.side + 1)}); }},
    {"retries", fail_one<IBV_WC_RETRY_EXC_ERR>, nothing},
    {"not ready", fail_one<IBV_WC_RNR_RETRY_EXC_ERR>, nothing},
    {"access", fail_one<IBV_WC_REM_ACCESS_ERR>, nothing},
    {"fatal", fail_one<IBV_WC_FATAL_ERR>, nothing},
};

struct soak {
  soak(verbs_rig on, std::uint32_t seed) : made(std::move(on)), random(seed) {}

  verbs_rig made;
  std::mt19937 random;
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::now() + how_long;
  std::size_t struck = 0;
  /// On a busy machine it takes longer to inject as many.
  bool is_over() const {
    return std::chrono::steady_clock::now() >= until && struck >= least_struck;
  }
  std::uint32_t below(std::uint32_t most) { return static_cast<std::uint32_t>(random() % most); }
};

awaitable<void> talk(soak& in, channel& first, channel& second) {
  for (std::uint32_t round = 1; !in.is_over(); ++round) {
    traffic one(first, second, round, {.flows = 3, .messages = 20, .most_bytes = 50'000});
    co_await one.result();
  }
}

/// Runs twice, concurrently.
awaitable<void> strike(soak& in) {
  rdma_double& devices = in.made.network->devices();
  while (!in.is_over()) {
    const disturbance& what = disturbances[in.below(std::size(disturbances))];
    const victim whom{static_cast<int>(in.below(2)), in.below(rdma_lanes)};
    if (in.below(8) == 0) in.made.rig->cut(static_cast<std::uint16_t>(in.below(lanes)));
    what.strike(devices, whom);
    ++in.struck;
    co_await turns(static_cast<int>(in.below(3000)));
    what.heal(devices, whom);
    co_await turns(static_cast<int>(in.below(300)));
  }
}

bool all_up(const channel& end) {
  for (const rail_stats& one : end.rails()) {
    if (one.state != "up") return false;
  }
  return true;
}

/// Ignores unacknowledged events, which are acknowledged in batches.
rdma_double::objects things(const rdma_double& of) {
  rdma_double::objects all = of.open();
  all.unacked_events = 0;
  return all;
}

awaitable<void> suffer(std::uint32_t seed) {
  verbs_rig made = co_await verbs_rig::connect(small_settings(), lanes, rdma_lanes,
                                               rdma_double::delivery::at_poll);
  soak in(std::move(made), seed);
  rdma_double& devices = in.made.network->devices();
  const rdma_double::objects full = things(devices);
  const channel_pair ends = in.made.rig->channels();
  const asio::any_io_executor executor = ends.first->get_executor();
  background talking(executor, talk(in, *ends.first, *ends.second));
  background first(executor, strike(in)), second(executor, strike(in));
  co_await first.result();
  co_await second.result();
  co_await talking.result();
  // A setup during which its device failed may take until its timeout.
  co_await until([&] { return all_up(*ends.first) && all_up(*ends.second); }, "lanes come back",
                 40s);
  traffic after(*ends.first, *ends.second, 1);
  co_await after.result();
  const auto wait = std::chrono::steady_clock::now() + 10s;
  while (things(devices) != full && std::chrono::steady_clock::now() < wait) co_await turns(1);
  EXPECT_EQ(things(devices).text(), full.text()) << "of dead lanes";
  EXPECT_EQ(devices.seen().rnr, 0u) << "what found no credit was sent all the same";
  EXPECT_EQ(devices.seen().cq_overruns, 0u);
  EXPECT_EQ(ends.first->stats().unexpected_bytes + ends.second->stats().unexpected_bytes, 0u);
}

TEST(rdma_soak, loses_no_byte_and_leaves_nothing) {
  const std::uint32_t seed = chosen_seed();
  SCOPED_TRACE("TANDEM_TEST_SEED=" + std::to_string(seed));
  run_test(suffer(seed), drive::by_asio, 100s);
  EXPECT_EQ(verbs::object_counts::take(), verbs::object_counts{});
}

}  // namespace
}  // namespace tandem::test
