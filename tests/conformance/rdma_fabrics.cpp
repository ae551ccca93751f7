// The lanes that a job gets where a rail has an RDMA device, and what they carry.

#include <net/if.h>

#include <boost/asio/use_awaitable.hpp>
#include <span>
#include <tandem/async.hpp>
#include <tandem/collectives.hpp>
#include <tandem/fabric.hpp>
#include <tandem/window.hpp>

#include "doubles/rdma/on_loopback.hpp"
#include "support/channel_case.hpp"
#include "support/expected_log.hpp"
#include "support/fabric_maker.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t message_bytes = 1'000'000;

unsigned loopback_index() {
  return ::if_nametoindex("lo");
}

struct two_ranks {
  explicit two_ranks(fabrics made) : all(std::move(made)) {}
  fabrics all;
  channel* ends[2] = {};
};

awaitable<void> connect(fabric& self, channel*& made) {
  channel& to = co_await self.to(1 - self.rank());
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

awaitable<void> exchange_once(two_ranks& in, flow_id flow) {
  channel &a = *in.ends[0], &b = *in.ends[1];
  background there(a.get_executor(), send_pattern(a, flow, message_bytes, 1));
  background back(b.get_executor(), send_pattern(b, flow, message_bytes, 2));
  co_await recv_pattern(b, flow, message_bytes, 1);
  co_await recv_pattern(a, flow, message_bytes, 2);
  co_await there.result();
  co_await back.result();
}

/// Acknowledged bytes of this end over RDMA lanes, or over the others.
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
  co_await exchange_once(*in, 1);
  for (const int rank : {0, 1}) {
    const channel& end = *in->ends[rank];
    EXPECT_GE(arrived(end, true), message_bytes);
    EXPECT_LE(arrived(end, false), before[rank] + message_bytes / 10) << "TCP is on standby";
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
  for (flow_id flow = 0; flow < 4; ++flow) co_await exchange_once(*in, flow);
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

/// A message between two regions, too short to be registered on its own.
awaitable<void> carried_between_regions(rdma_double& devices) {
  constexpr std::size_t bytes = 200'000;
  const auto in = co_await make_two(rdma_settings(rdma_use::on), 2);
  std::vector<std::byte> from = pattern(bytes, 1), into(bytes);
  const region sent = in->all[0]->register_memory(from);
  const region received = in->all[1]->register_memory(into);
  EXPECT_EQ(sent.describe(), loopback_device + ": registered host memory");
  const rdma_double::traffic before = devices.seen();
  background sender(in->ends[0]->get_executor(), in->ends[0]->send(0, from));
  co_await in->ends[1]->recv(0, into);
  co_await sender.result();
  EXPECT_EQ(first_wrong(into, 1), std::nullopt);
  EXPECT_EQ(devices.seen().registrations, before.registrations);
  EXPECT_GE(devices.seen().writes, before.writes + 1);
  EXPECT_GE(devices.seen().bytes, before.bytes + bytes);
  for (const auto& one : in->all) one->close();
}

awaitable<void> use_window(communicator& world, bool puts, std::vector<std::byte>& memory,
                           const std::vector<std::byte>& from, rdma_double& devices) {
  window shared = co_await make_window(world, memory);
  co_await barrier(world);  // both memories are registered
  if (puts) {
    const rdma_double::traffic before = devices.seen();
    co_await shared.put(1, 100, from, 5);
    co_await shared.flush(1);
    EXPECT_EQ(devices.seen().registrations, before.registrations);
    EXPECT_GE(devices.seen().bytes, before.bytes + from.size());
  } else {
    const window_notification got = co_await shared.notified();
    EXPECT_EQ(got.value, 5u);
    EXPECT_EQ(first_wrong(std::span(memory).subspan(100, from.size()), 1), std::nullopt);
  }
  co_await shared.close();
}

/// NICs write what is put into the memory of a window, which is registered.
awaitable<void> put_into_a_window(rdma_double& devices) {
  constexpr std::size_t bytes = 200'000;
  const auto in = co_await make_two(rdma_settings(rdma_use::on), 2);
  std::vector<std::byte> from = pattern(bytes, 1);
  const region sent = in->all[0]->register_memory(from);
  std::vector<std::byte> memory[2] = {std::vector<std::byte>(bytes),
                                      std::vector<std::byte>(bytes + 100)};
  communicator first(*in->all[0], settings{}), second(*in->all[1], settings{});
  std::vector<awaitable<void>> both;
  both.push_back(use_window(first, true, memory[0], from, devices));
  both.push_back(use_window(second, false, memory[1], from, devices));
  co_await when_all(std::move(both));
  for (const auto& one : in->all) one->close();
}

awaitable<void> tcp_only(settings options) {
  const auto in = co_await make_two(options, 1);
  co_await exchange_once(*in, 1);
  EXPECT_GE(arrived(*in->ends[0], false), message_bytes);
  for (const auto& one : in->all) one->close();
}

TEST_F(rdma_fabric, copies_nothing_between_regions) {
  run_test(carried_between_regions(*devices_));
}

TEST_F(rdma_fabric, writes_into_a_window) {
  run_test(put_into_a_window(*devices_));
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

/// The link goes down and up again while the job continues.
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
  co_await exchange_once(*in, 1);
  EXPECT_EQ(arrived(*in->ends[0], true), by_rdma);
  devices.restore_link(loopback_device);
  const auto back = [&in] { return all_up(*in->ends[0], 2) && all_up(*in->ends[1], 2); };
  co_await until(back, "the lane is back");
  EXPECT_GT(in->ends[0]->rails()[0].epoch, 1u);
  const std::uint64_t by_tcp = arrived(*in->ends[0], false);
  co_await exchange_once(*in, 2);
  EXPECT_LE(arrived(*in->ends[0], false), by_tcp + message_bytes / 10);
  for (const auto& one : in->all) one->close();
}

TEST_F(rdma_fabric, outlives_its_link) {
  expect_log("double0 port 1 is not active");
  run_test(link_down_and_up(*devices_));
}

bool is_lost(const two_ranks& in) {
  return in.ends[0]->rails()[0].state == "lost" && in.ends[1]->rails()[0].state == "lost";
}

/// The job continues over TCP without the device, and over the device once it is back, in a new
/// epoch.
awaitable<void> device_fails_and_is_restored(rdma_double& devices,
                                             void (rdma_double::*goes)(const std::string&)) {
  const auto in = co_await make_two(rdma_settings(rdma_use::on), 2);
  for (std::uint32_t epoch = 2; epoch < 5; ++epoch) {
    (devices.*goes)(loopback_device);
    co_await until([&in] { return is_lost(*in); }, "the lane is lost");
    const std::string why = in->ends[0]->rails()[0].why_lost + in->ends[1]->rails()[0].why_lost;
    EXPECT_NE(why.find("double0 port 1, GID 0 (RoCE v2, 127.0.0.1): device failed"),
              std::string::npos)
        << why;
    co_await exchange_once(*in, 1);
    const auto closed = [&devices] { return devices.open() == rdma_double::objects{}; };
    co_await until(closed, "all of the device is closed with its last lane");
    devices.restore_device(loopback_device);
    const auto back = [&in] { return all_up(*in->ends[0], 2) && all_up(*in->ends[1], 2); };
    co_await until(back, "the lane is back");
    EXPECT_GE(in->ends[0]->rails()[0].epoch, epoch);
    const std::uint64_t by_rdma = arrived(*in->ends[0], true);
    co_await exchange_once(*in, 2);
    EXPECT_GE(arrived(*in->ends[0], true), by_rdma + message_bytes / 2);
  }
  for (const auto& one : in->all) one->close();
}

TEST_F(rdma_fabric, outlives_a_device_that_fails) {
  expect_log("double0: ibv_open_device");
  run_test(device_fails_and_is_restored(*devices_, &rdma_double::fail_device));
}

TEST_F(rdma_fabric, outlives_a_device_that_is_removed) {
  expect_log("no RDMA device on lo");
  run_test(device_fails_and_is_restored(*devices_, &rdma_double::remove_device));
}

const std::string gid_at_0 = "double0 port 1, GID 0 (RoCE v2, 127.0.0.1)";
const std::string gid_at_3 = "double0 port 1, GID 3 (RoCE v2, 127.0.0.1)";

/// The address moves to another index of the GID table, and the lane with it.
awaitable<void> gid_moves(rdma_double& devices) {
  const auto in = co_await make_two(rdma_settings(rdma_use::on), 2);
  rdma_double::gid moved = rdma_double::roce("127.0.0.1", loopback_index());
  moved.index = 3;
  devices.change_gids(loopback_device, {rdma_double::roce("127.0.0.9", loopback_index()), moved});
  const auto back = [&in] {
    return all_up(*in->ends[0], 2) && all_up(*in->ends[1], 2) && in->ends[0]->rails()[0].epoch > 1;
  };
  co_await until(back, "the lane is back");
  for (const channel* end : in->ends) {
    const rail_stats rail = end->rails()[0];
    EXPECT_NE(rail.name.find(gid_at_3), std::string::npos) << rail.name;
    EXPECT_EQ(end->rails()[1].times_lost, 0u);
  }
  const std::string why = in->ends[0]->rails()[0].why_lost + in->ends[1]->rails()[0].why_lost;
  EXPECT_NE(why.find(gid_at_0 + ": this GID was removed"), std::string::npos) << why;
  const std::uint64_t by_rdma = arrived(*in->ends[0], true);
  co_await exchange_once(*in, 1);
  EXPECT_GE(arrived(*in->ends[0], true), by_rdma + message_bytes / 2);
  for (const auto& one : in->all) one->close();
}

TEST_F(rdma_fabric, uses_the_new_index_where_its_gid_moves) {
  run_test(gid_moves(*devices_));
}

/// The address moves to another device of the host, as where a NIC is replaced.
awaitable<void> device_replaced(rdma_double& devices) {
  const auto in = co_await make_two(rdma_settings(rdma_use::on), 2);
  const auto own = rdma_double::roce("127.0.0.1", loopback_index());
  const auto other = rdma_double::roce("127.0.0.9", loopback_index());
  devices.change_gids(loopback_device, {other});
  devices.change_gids("double1", {own});
  const auto back = [&in] {
    return all_up(*in->ends[0], 2) && all_up(*in->ends[1], 2) && in->ends[0]->rails()[0].epoch > 1;
  };
  co_await until(back, "the lane is back");
  for (const channel* end : in->ends) {
    const std::string name = end->rails()[0].name;
    EXPECT_NE(name.find("double1 port 1, GID 0 (RoCE v2, 127.0.0.1)"), std::string::npos) << name;
  }
  co_await exchange_once(*in, 1);
  for (const auto& one : in->all) one->close();
}

TEST(rdma_fabric_of_two_devices, uses_the_other_where_the_address_moves_there) {
  const auto own = rdma_double::roce("127.0.0.1", loopback_index());
  const auto other = rdma_double::roce("127.0.0.8", loopback_index());
  rdma_double devices(
      {{.name = loopback_device, .gids = {own}}, {.name = "double1", .gids = {other}}});
  devices.deliver(rdma_double::delivery::at_poll);
  run_test(device_replaced(devices));
}

/// Other GIDs change: no lane is affected.
awaitable<void> other_gids_change(rdma_double& devices) {
  const auto in = co_await make_two(rdma_settings(rdma_use::on), 2);
  const auto own = rdma_double::roce("127.0.0.1", loopback_index());
  for (const char* const other : {"127.0.0.8", "127.0.0.9"}) {
    devices.change_gids(loopback_device, {own, rdma_double::roce(other, loopback_index())});
    co_await until([&devices] { return devices.waiting_events() == 0; }, "the event to be fetched");
    co_await exchange_once(*in, 1);
  }
  for (const channel* end : in->ends) EXPECT_EQ(end->rails()[0].times_lost, 0u);
  for (const auto& one : in->all) one->close();
}

TEST_F(rdma_fabric, keeps_its_lanes_where_other_gids_change) {
  run_test(other_gids_change(*devices_));
}

}  // namespace
}  // namespace tandem::test
