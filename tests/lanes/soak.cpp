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
#include "transports/rails/verbs/object_counts.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t lanes = 3, rdma_lanes = 2;  // the third is TCP
constexpr auto how_long = 3s;
constexpr std::size_t min_injected = 10;

std::uint32_t chosen_seed() {
  const char* const text = std::getenv("TANDEM_TEST_SEED");
  const std::uint32_t seed =
      text != nullptr ? static_cast<std::uint32_t>(std::atoll(text)) : std::random_device()();
  std::printf("TANDEM_TEST_SEED=%u\n", seed);
  return seed;
}

/// One of the devices, each of which has an address of its own.
struct target {
  int side = 0;
  std::size_t lane = 0;
  std::string device() const { return rdma_network::device_name(side, lane); }
  rdma_double::gid gid(int last) const {
    return rdma_double::roce("10.0." + std::to_string(lane) + "." + std::to_string(last), 1);
  }
};

struct fault {
  const char* name;
  void (*inject)(rdma_double& on, const target& at);
  void (*heal)(rdma_double& on, const target& at);
};

void nothing(rdma_double&, const target&) {}

template <ibv_wc_status Status>
void fail_one(rdma_double& on, const target& at) {
  on.fail_next_wr(Status, at.device());
}

constexpr fault faults[] = {
    {"link", [](rdma_double& on, const target& v) { on.drop_link(v.device()); },
     [](rdma_double& on, const target& v) { on.restore_link(v.device()); }},
    {"device", [](rdma_double& on, const target& v) { on.fail_device(v.device()); },
     [](rdma_double& on, const target& v) { on.restore_device(v.device()); }},
    {"removed", [](rdma_double& on, const target& v) { on.remove_device(v.device()); },
     [](rdma_double& on, const target& v) { on.restore_device(v.device()); }},
    {"acks", [](rdma_double& on, const target& v) { on.drop_acks(v.device(), true); },
     [](rdma_double& on, const target& v) { on.drop_acks(v.device(), false); }},
    {"late", [](rdma_double& on, const target& v) { on.delay_packets(v.device(), true); },
     [](rdma_double& on, const target& v) { on.delay_packets(v.device(), false); }},
    {"held", [](rdma_double& on, const target& v) { on.hold(v.device(), true); },
     [](rdma_double& on, const target& v) { on.hold(v.device(), false); }},
    {"gids", [](rdma_double& on, const target& v) { on.change_gids(v.device(), {v.gid(99)}); },
     [](rdma_double& on, const target& v) { on.change_gids(v.device(), {v.gid(v.side + 1)}); }},
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
  std::size_t injected = 0;
  /// On a busy machine it takes longer to inject as many.
  bool is_over() const {
    return std::chrono::steady_clock::now() >= until && injected >= min_injected;
  }
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); }
};

awaitable<void> exchange(soak& in, channel& first, channel& second) {
  for (std::uint32_t round = 1; !in.is_over(); ++round) {
    traffic one(first, second, round, {.flows = 3, .messages = 20, .max_bytes = 50'000});
    co_await one.result();
  }
}

/// Runs twice, concurrently.
awaitable<void> inject(soak& in) {
  rdma_double& devices = in.made.network->devices();
  while (!in.is_over()) {
    const fault& what = faults[in.below(std::size(faults))];
    const target at{static_cast<int>(in.below(2)), in.below(rdma_lanes)};
    if (in.below(8) == 0) in.made.rig->cut(static_cast<std::uint16_t>(in.below(lanes)));
    what.inject(devices, at);
    ++in.injected;
    co_await turns(static_cast<int>(in.below(3000)));
    what.heal(devices, at);
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
rdma_double::objects open_objects(const rdma_double& of) {
  rdma_double::objects all = of.open();
  all.unacked_events = 0;
  return all;
}

awaitable<void> run_soak(std::uint32_t seed) {
  verbs_rig made = co_await verbs_rig::connect(small_settings(), lanes, rdma_lanes,
                                               rdma_double::delivery::at_poll);
  soak in(std::move(made), seed);
  rdma_double& devices = in.made.network->devices();
  const rdma_double::objects full = open_objects(devices);
  const channel_pair ends = in.made.rig->channels();
  const asio::any_io_executor executor = ends.first->get_executor();
  background exchanging(executor, exchange(in, *ends.first, *ends.second));
  background first(executor, inject(in)), second(executor, inject(in));
  co_await first.result();
  co_await second.result();
  co_await exchanging.result();
  // A setup during which its device failed may take until its timeout.
  co_await until([&] { return all_up(*ends.first) && all_up(*ends.second); }, "lanes come back",
                 40s);
  traffic after(*ends.first, *ends.second, 1);
  co_await after.result();
  const auto wait = std::chrono::steady_clock::now() + 10s;
  while (open_objects(devices) != full && std::chrono::steady_clock::now() < wait)
    co_await turns(1);
  EXPECT_EQ(open_objects(devices).text(), full.text()) << "objects of dead lanes are left";
  EXPECT_EQ(devices.seen().rnr, 0u) << "sent without credits";
  EXPECT_EQ(devices.seen().cq_overruns, 0u);
  EXPECT_EQ(ends.first->stats().unexpected_bytes + ends.second->stats().unexpected_bytes, 0u);
}

TEST(rdma_soak, loses_no_byte_and_leaves_nothing) {
  const std::uint32_t seed = chosen_seed();
  SCOPED_TRACE("TANDEM_TEST_SEED=" + std::to_string(seed));
  run_test(run_soak(seed), drive::by_asio, 100s);
  EXPECT_EQ(verbs::object_counts::take(), verbs::object_counts{});
}

}  // namespace
}  // namespace tandem::test
