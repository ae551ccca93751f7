// Faults of a device under traffic: the lane is lost, with the reason; the other lanes continue;
// each message arrives once and complete; the lane comes back when its device works again.

#include <boost/asio/use_awaitable.hpp>

#include "support/traffic.hpp"
#include "support/verbs_rig.hpp"

namespace tandem::test {
namespace {

using delivery = rdma_double::delivery;

const std::string device = "double0_0";  // of the first end, used by lane 0
const std::string location = "double0_0 port 1, GID 0 (RoCE v2, 10.0.0.1)";
const rdma_double::gid own = rdma_double::roce("10.0.0.1", 1),
                       other = rdma_double::roce("10.7.7.7", 1);

struct fault_case {
  std::string name;
  void (*inject)(rdma_double& devices);
  void (*heal)(rdma_double& devices);
  std::vector<std::string> words;  ///< of the end that detects it
};

template <ibv_wc_status Status>
void fail_one(rdma_double& devices) {
  devices.fail_next_wr(Status, device);
}
void nothing(rdma_double&) {}

const std::vector<fault_case>& fault_cases() {
  static const std::vector<fault_case> all{
      {"link_down",
       [](rdma_double& d) { d.drop_link(device); },
       [](rdma_double& d) { d.restore_link(device); },
       {location, "link is down"}},
      {"device_dead",
       [](rdma_double& d) { d.fail_device(device); },
       [](rdma_double& d) { d.restore_device(device); },
       {location, "device failed", "dmesg"}},
      {"device_removed",
       [](rdma_double& d) { d.remove_device(device); },
       [](rdma_double& d) { d.restore_device(device); },
       {location, "device failed", "dmesg"}},
      {"acks_lost",
       [](rdma_double& d) { d.drop_acks(device, true); },
       [](rdma_double& d) { d.drop_acks(device, false); },
       {location, " pair 0x", "retries exceeded", "rdma link"}},
      {"gids_gone",
       [](rdma_double& d) { d.change_gids(device, {}); },
       [](rdma_double& d) { d.change_gids(device, {own}); },
       {location + ": this GID was removed: the GID table changed; does the interface"}},
      {"gids_moved",
       [](rdma_double& d) {
         d.change_gids(device, {other, own});
       },
       [](rdma_double& d) { d.change_gids(device, {own}); },
       {location + ": this GID was removed", "has GID 0 (RoCE v2, 10.7.7.7) in its place"}},
      {"retries", fail_one<IBV_WC_RETRY_EXC_ERR>, nothing, {"retries exceeded"}},
      {"not_ready", fail_one<IBV_WC_RNR_RETRY_EXC_ERR>, nothing, {"receiver not ready"}},
      {"remote_access", fail_one<IBV_WC_REM_ACCESS_ERR>, nothing, {"remote access error"}},
      {"remote_operation", fail_one<IBV_WC_REM_OP_ERR>, nothing, {"operation failed at the peer"}},
      {"invalid_request", fail_one<IBV_WC_REM_INV_REQ_ERR>, nothing, {"invalid request"}},
      {"protection", fail_one<IBV_WC_LOC_PROT_ERR>, nothing, {"local protection error"}},
      {"length", fail_one<IBV_WC_LOC_LEN_ERR>, nothing, {"local length error"}},
      {"pair", fail_one<IBV_WC_LOC_QP_OP_ERR>, nothing, {"local queue pair error"}},
      {"fatal", fail_one<IBV_WC_FATAL_ERR>, nothing, {"fatal device error"}},
      {"general", fail_one<IBV_WC_GENERAL_ERR>, nothing, {"error of the transport"}},
      {"held",
       [](rdma_double& d) { d.hold(device, true); },
       [](rdma_double& d) { d.hold(device, false); },
       {"no traffic, or closed by the peer"}},
  };
  return all;
}

void PrintTo(const fault_case& m, std::ostream* out) {
  *out << m.name;
}

struct lanes_case {
  std::string name;
  std::size_t lanes, rdma_lanes;
  delivery when;
  verbs::queue_depths queue_depths = small_queues();
};

void PrintTo(const lanes_case& c, std::ostream* out) {
  *out << c.name;
}

/// Moves the devices step by step until the test ends.
awaitable<void> keep_pumping(std::shared_ptr<rdma_network> network, std::shared_ptr<bool> stop) {
  for (std::size_t i = 1; !*stop; ++i) {
    network->devices().pump(1 + i % 7);
    co_await turns(1);
  }
}

bool is_up(const channel& end, std::size_t lane, std::uint32_t min_epoch) {
  const rail_stats one = end.rails()[lane];
  return one.state == "up" && one.epoch >= min_epoch;
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& one : words) {
    EXPECT_NE(text.find(one), std::string::npos) << one << " is not in: " << text;
  }
}

awaitable<void> run_case(const fault_case& what, const lanes_case& with) {
  const verbs_rig made = co_await verbs_rig::connect(small_settings(), with.lanes, with.rdma_lanes,
                                                     with.when, with.queue_depths);
  rdma_double& devices = made.network->devices();
  const channel_pair ends = made.rig->channels();
  const auto stop = std::make_shared<bool>(false);
  std::optional<background> pump;
  if (with.when == delivery::by_pump) {
    pump.emplace(ends.first->get_executor(), keep_pumping(made.network, stop));
  }
  traffic during(*ends.first, *ends.second, 1);
  co_await until([&devices] { return devices.seen().bytes > 100'000; }, "messages");
  EXPECT_FALSE(during.is_over());
  what.inject(devices);
  co_await during.result();
  const auto lost = [&ends] {
    return ends.first->rails()[0].times_lost > 0 && ends.second->rails()[0].times_lost > 0;
  };
  traffic after(*ends.first, *ends.second, 2);
  co_await until(lost, "the lane is lost");
  co_await after.result();
  expect_words(ends.first->rails()[0].why_lost + " / " + ends.second->rails()[0].why_lost,
               what.words);
  EXPECT_EQ(ends.first->rails()[1].times_lost, 0u) << ends.first->rails()[1].why_lost;
  what.heal(devices);
  const auto back = [&ends] { return is_up(*ends.first, 0, 2) && is_up(*ends.second, 0, 2); };
  co_await until(back, "the lane comes back");
  traffic healed(*ends.first, *ends.second, 3);
  co_await healed.result();
  EXPECT_EQ(devices.seen().rnr, 0u);
  EXPECT_EQ(devices.seen().cq_overruns, 0u);
  *stop = true;
  if (pump) co_await pump->result();
}

class lost_lanes : public testing::TestWithParam<std::tuple<fault_case, lanes_case>> {};

TEST_P(lost_lanes, report_why_and_come_back) {
  const auto& [what, with] = GetParam();
  if (what.name == "held" && with.when == delivery::by_pump) GTEST_SKIP() << "a pump moves it";
  run_test(run_case(what, with));
}

INSTANTIATE_TEST_SUITE_P(
    verbs, lost_lanes,
    testing::Combine(
        testing::ValuesIn(fault_cases()),
        testing::Values(lanes_case{"two", 2, 2, delivery::at_poll},
                        lanes_case{"two_at_once", 2, 2, delivery::at_post},
                        lanes_case{"with_tcp", 2, 1, delivery::at_poll},
                        lanes_case{"stepwise", 2, 1, delivery::by_pump},
                        lanes_case{"direct", 2, 2, delivery::at_poll, direct_queues()},
                        lanes_case{"direct_with_tcp", 2, 1, delivery::at_poll, direct_queues()},
                        lanes_case{"direct_stepwise", 2, 1, delivery::by_pump, direct_queues()})),
    [](const auto& which) {
      return std::get<0>(which.param).name + "_" + std::get<1>(which.param).name;
    });

std::uint64_t carried(const channel& end, std::size_t lane) {
  return end.rails()[lane].bytes_arrived;
}

/// TCP carries data only while both RDMA lanes are down.
awaitable<void> both_lanes_down() {
  const verbs_rig made = co_await verbs_rig::connect(small_settings(), 3, 2, delivery::at_poll);
  rdma_double& devices = made.network->devices();
  const channel_pair ends = made.rig->channels();
  const std::size_t tcp = 2;
  // On a busy machine a lane may be suspect for a moment.
  const std::uint64_t max_tcp_bytes = 20'000;
  const std::uint64_t at_first = carried(*ends.first, tcp);
  traffic before(*ends.first, *ends.second, 1);
  co_await until([&devices] { return devices.seen().bytes > 100'000; }, "messages");
  EXPECT_LE(carried(*ends.first, tcp), at_first + max_tcp_bytes);
  for (const std::size_t lane : {0, 1}) devices.drop_link(rdma_network::device_name(1, lane));
  co_await before.result();
  EXPECT_GT(carried(*ends.first, tcp), at_first + max_tcp_bytes);
  for (const std::size_t lane : {0, 1}) devices.restore_link(rdma_network::device_name(1, lane));
  const auto back = [&ends] {
    return is_up(*ends.first, 0, 2) && is_up(*ends.first, 1, 2) && is_up(*ends.second, 0, 2) &&
           is_up(*ends.second, 1, 2);
  };
  co_await until(back, "both lanes come back");
  const std::uint64_t then[2] = {carried(*ends.first, tcp), carried(*ends.second, tcp)};
  traffic healed(*ends.first, *ends.second, 2);
  co_await healed.result();
  EXPECT_LE(carried(*ends.first, tcp), then[0] + max_tcp_bytes);
  EXPECT_LE(carried(*ends.second, tcp), then[1] + max_tcp_bytes);
  EXPECT_EQ(devices.seen().rnr, 0u);
}

TEST(lost_lanes, leave_the_load_to_tcp_until_they_are_back) {
  run_test(both_lanes_down());
}

}  // namespace
}  // namespace tandem::test
