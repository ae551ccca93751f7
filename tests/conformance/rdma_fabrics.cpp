// Which lanes a job gets where a rail has an RDMA device, and what they carry.

#include <boost/asio/use_awaitable.hpp>
#include <tandem/fabric.hpp>
#include <tandem/join.hpp>

#include "conformance/channel_case.hpp"
#include "support/expected_log.hpp"
#include "support/fabric_maker.hpp"
#include "support/rdma/on_loopback.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t message_bytes = 1'000'000;

struct two_ranks {
  explicit two_ranks(fabrics made) : all(std::move(made)) {}
  fabrics all;
  channel* ends[2] = {};
};

awaitable<void> connect(fabric& mine, channel*& made) {
  channel& to = co_await mine.to(1 - mine.rank());
  made = &to;
}

bool all_up(const channel& end, std::size_t lanes) {
  const std::vector<rail_stats> all = end.rails();
  return all.size() == lanes && std::all_of(all.begin(), all.end(), [](const rail_stats& one) {
           return one.state == "up";
         });
}

awaitable<std::shared_ptr<two_ranks>> make_two(settings options, std::size_t lanes) {
  fabrics all = co_await make_job(2, std::move(options));
  auto made = std::make_shared<two_ranks>(std::move(all));
  std::vector<awaitable<void>> both;
  for (const int rank : {0, 1}) both.push_back(connect(*made->all[rank], made->ends[rank]));
  co_await when_all(std::move(both));
  const auto ready = [&made, lanes] {
    return all_up(*made->ends[0], lanes) && all_up(*made->ends[1], lanes);
  };
  co_await until(ready, "all lanes");
  co_return made;
}

awaitable<void> talk_once(two_ranks& in, flow_id flow) {
  channel &a = *in.ends[0], &b = *in.ends[1];
  background there(a.get_executor(), send_pattern(a, flow, message_bytes, 1));
  background back(b.get_executor(), send_pattern(b, flow, message_bytes, 2));
  co_await recv_pattern(b, flow, message_bytes, 1);
  co_await recv_pattern(a, flow, message_bytes, 2);
  co_await there.result();
  co_await back.result();
}

/// What this end knows to have arrived over RDMA lanes, or over the others.
std::uint64_t arrived(const channel& end, bool by_rdma) {
  std::uint64_t bytes = 0;
  for (const rail_stats& one : end.rails()) {
    const bool is_rdma = one.name.find("over " + loopback_device) != std::string::npos;
    if (is_rdma == by_rdma) bytes += one.bytes_arrived;
  }
  return bytes;
}

awaitable<void> rdma_carries_all(settings options) {
  const auto in = co_await make_two(options, 2);
  const std::uint64_t before[2] = {arrived(*in->ends[0], false), arrived(*in->ends[1], false)};
  co_await talk_once(*in, 1);
  for (const int rank : {0, 1}) {
    const channel& end = *in->ends[rank];
    EXPECT_GE(arrived(end, true), message_bytes);
    EXPECT_LE(arrived(end, false), before[rank] + message_bytes / 10) << "TCP only stands by";
    EXPECT_NE(end.rails()[0].name.find("port 1, GID 0 (RoCE v2, 127.0.0.1)"), std::string::npos)
        << end.rails()[0].name;
  }
  for (const auto& one : in->all) one->close();
}

class rdma_fabric : public testing::Test {
 protected:
  std::unique_ptr<rdma_double> devices_ = rdma_on_loopback();
};

TEST_F(rdma_fabric, carries_by_rdma_where_both_ends_have_it) {
  run_test(rdma_carries_all(rdma_settings(rdma_use::automatic)));
  EXPECT_GT(devices_->seen().writes, 0u);
}

TEST_F(rdma_fabric, carries_by_rdma_where_asked_to) {
  run_test(rdma_carries_all(rdma_settings(rdma_use::on)));
}

awaitable<void> both_carry() {
  const auto in = co_await make_two(rdma_settings(rdma_use::both), 2);
  for (flow_id flow = 0; flow < 4; ++flow) co_await talk_once(*in, flow);
  for (const channel* end : in->ends) {
    EXPECT_GE(arrived(*end, true), message_bytes / 10);
    EXPECT_GE(arrived(*end, false), message_bytes / 10);
  }
  for (const auto& one : in->all) one->close();
}

TEST_F(rdma_fabric, carries_by_both) {
  run_test(both_carry());
  EXPECT_GT(devices_->seen().writes, 0u);
  EXPECT_EQ(devices_->seen().rnr, 0u);
}

awaitable<void> tcp_only(settings options) {
  const auto in = co_await make_two(options, 1);
  co_await talk_once(*in, 1);
  EXPECT_GE(arrived(*in->ends[0], false), message_bytes);
  for (const auto& one : in->all) one->close();
}

TEST_F(rdma_fabric, leaves_devices_alone_when_off) {
  run_test(tcp_only(rdma_settings(rdma_use::off)));
  EXPECT_EQ(devices_->seen(), rdma_double::traffic{});
}

TEST_F(rdma_fabric, leaves_devices_alone_when_all_is_encrypted) {
  settings options = rdma_settings(rdma_use::automatic);
  options.encrypt = true;
  run_test(tcp_only(options));
  EXPECT_EQ(devices_->seen(), rdma_double::traffic{});
}

awaitable<void> make_and_forget(settings options) {
  const fabrics all = co_await make_job(2, std::move(options));
}

awaitable<void> refused(settings options, std::initializer_list<std::string> words) {
  const auto failure = co_await failure_of(make_and_forget(std::move(options)));
  expect_error(failure, errc::bad_option, words);
}

TEST_F(rdma_fabric, refuses_to_encrypt_by_rdma) {
  settings options = rdma_settings(rdma_use::on);
  options.encrypt = true;
  run_test(refused(options, {"rdma on", "encrypt"}));
}

TEST(rdma_fabric_without, a_device_is_a_bad_option) {
  const rdma_double none({});
  run_test(refused(rdma_settings(rdma_use::on), {"rdma on", "no device"}));
}

TEST(rdma_fabric_without, a_device_on_the_rail_is_a_bad_option) {
  const rdma_double elsewhere({{.name = "other0"}});
  run_test(refused(rdma_settings(rdma_use::on), {"rdma on", "127.0.0.1"}));
}

/// The link goes down and up again under a job that goes on.
awaitable<void> link_down_and_up(rdma_double& devices) {
  const auto in = co_await make_two(rdma_settings(rdma_use::on), 2);
  devices.drop_link(loopback_device);
  const auto lost = [&in] {
    return in->ends[0]->rails()[0].state == "lost" && in->ends[1]->rails()[0].state == "lost";
  };
  co_await until(lost, "the lane is lost");
  for (const channel* end : in->ends) {
    const rail_stats rail = end->rails()[0];
    EXPECT_NE(rail.why_lost, "");
    EXPECT_EQ(end->rails()[1].state, "up");
  }
  const std::uint64_t by_rdma = arrived(*in->ends[0], true);
  co_await talk_once(*in, 1);
  EXPECT_EQ(arrived(*in->ends[0], true), by_rdma);
  devices.restore_link(loopback_device);
  const auto back = [&in] { return all_up(*in->ends[0], 2) && all_up(*in->ends[1], 2); };
  co_await until(back, "the lane is back");
  EXPECT_GT(in->ends[0]->rails()[0].epoch, 1u);
  const std::uint64_t by_tcp = arrived(*in->ends[0], false);
  co_await talk_once(*in, 2);
  EXPECT_LE(arrived(*in->ends[0], false), by_tcp + message_bytes / 10);
  for (const auto& one : in->all) one->close();
}

TEST_F(rdma_fabric, outlives_its_link) {
  expect_log("the port is not active");
  run_test(link_down_and_up(*devices_));
}

}  // namespace
}  // namespace tandem::test
