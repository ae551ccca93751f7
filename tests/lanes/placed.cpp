// Messages that NICs write from view to view: that they do, what is registered for them and for how
// long, and when a view that a NIC may still access is returned.

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "support/traffic.hpp"
#include "support/verbs_rig.hpp"
#include "transports/rails/tcp_lane_connection.hpp"
#include "transports/rails/verbs/regions.hpp"

namespace tandem::test {
namespace {

using delivery = rdma_double::delivery;
constexpr std::size_t message_bytes = 20'000;  // twenty chunks

struct placed_stage {
  std::shared_ptr<rdma_network> network;
  std::shared_ptr<rails_rig> rig;
  channel_pair ends;
};

awaitable<std::shared_ptr<placed_stage>> make_stage(std::size_t lanes, std::size_t rdma_lanes,
                                                    delivery when,
                                                    verbs::queue_depths queue_depths) {
  const verbs_rig made =
      co_await verbs_rig::connect(small_settings(), lanes, rdma_lanes, when, queue_depths);
  auto on = std::make_shared<placed_stage>();
  on->network = made.network;
  on->rig = made.rig;
  on->ends = made.rig->channels();
  co_return on;
}

awaitable<void> send_once(channel& from, channel& to, std::uint64_t seed) {
  background sender(from.get_executor(), send_pattern(from, 0, message_bytes, seed));
  co_await recv_pattern(to, 0, message_bytes, seed);
  co_await sender.result();
}

awaitable<void> registers_for_one_message() {
  const auto on = co_await make_stage(1, 1, delivery::at_poll, direct_queues());
  rdma_double& devices = on->network->devices();
  const auto before = devices.open();
  const auto seen = devices.seen();
  co_await send_once(*on->ends.first, *on->ends.second, 1);
  EXPECT_EQ(devices.seen().registrations, seen.registrations + 2);
  EXPECT_GE(devices.seen().writes, seen.writes + 20);
  EXPECT_EQ(devices.open().mrs, before.mrs) << "one stays registered";
  EXPECT_EQ(devices.open().registered_bytes, before.registered_bytes);
}

awaitable<void> carries_what_cannot_be_registered(int failures) {
  const auto on = co_await make_stage(1, 1, delivery::at_poll, direct_queues());
  rdma_double& devices = on->network->devices();
  for (int i = 0; i < failures; ++i) devices.fail_next(rdma_double::call::reg_mr, ENOMEM);
  co_await send_once(*on->ends.first, *on->ends.second, 1);
  co_await send_once(*on->ends.first, *on->ends.second, 2);
  EXPECT_EQ(on->ends.first->rails()[0].times_lost, 0u);
}

awaitable<std::unique_ptr<rails::lane_connection>> make_tcp_lane(sealed::connection over) {
  co_return std::make_unique<rails::tcp_lane_connection>(std::move(over));
}

awaitable<void> shares_a_message_with_tcp() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto network = rdma_network::make(executor, 1, delivery::at_poll, direct_queues());
  lane_connection_maker make =
      [network](sealed::connection over, sealed::side which,
                std::uint16_t lane) -> awaitable<std::unique_ptr<rails::lane_connection>> {
    if (lane == 0) return network->establish(std::move(over), which, lane);
    return make_tcp_lane(std::move(over));
  };
  settings options = small_settings();
  const auto rig = co_await rails_rig::connect(options, 2, false, std::move(make));
  const channel_pair ends = rig->channels();
  const std::size_t before = network->devices().seen().writes;
  constexpr std::size_t bytes = 4'000'000;
  background sender(ends.first->get_executor(), send_pattern(*ends.first, 0, bytes, 1));
  co_await recv_pattern(*ends.second, 0, bytes, 1);
  co_await sender.result();
  EXPECT_GT(network->devices().seen().writes, before + 100) << "nothing was placed";
  EXPECT_GT(ends.first->rails()[1].bytes_arrived, bytes / 100) << "TCP carried nothing";
}

/// The sender's NIC is stalled: posted writes may land at any time.
awaitable<void> gives_a_cancelled_receive_back_late() {
  const auto on = co_await make_stage(1, 1, delivery::by_pump, direct_queues());
  rdma_double& devices = on->network->devices();
  channel &from = *on->ends.first, &to = *on->ends.second;
  std::vector<std::byte> into(message_bytes, untouched);
  const auto message = pattern(message_bytes, 1);
  background receiver(to.get_executor(), to.recv(0, into));
  background sender(from.get_executor(), from.send(0, message));
  const std::size_t before = devices.seen().writes;
  while (devices.seen().writes == before) {
    devices.pump();
    co_await turns(1);
  }
  receiver.cancel();
  co_await turns(50);
  EXPECT_FALSE(receiver.is_over()) << "its view may still be written";
  while (!receiver.is_over() || !sender.is_over()) {
    devices.pump(3);
    co_await turns(1);
    if (!receiver.is_over()) continue;
    std::fill(into.begin(), into.end(), untouched);  // the buffer is free again
  }
  const auto failure = co_await receiver.failure();
  if (failure) expect_aborted(failure);
  co_await sender.failure();
  for (int i = 0; i < 200; ++i) {
    devices.pump_all();
    co_await turns(1);
  }
  const auto is_untouched = [](std::byte b) { return b == untouched; };
  EXPECT_TRUE(std::all_of(into.begin(), into.end(), is_untouched)) << "written after it was over";
  devices.deliver(delivery::at_poll);
  co_await expect_usable(from, to, 3);
}

/// Closing ends operations at once if no NIC may access their views, and otherwise when the lane
/// has quiesced.
awaitable<void> gives_views_back_when_it_closes() {
  const auto on = co_await make_stage(1, 1, delivery::by_pump, direct_queues());
  rdma_double& devices = on->network->devices();
  channel &from = *on->ends.first, &to = *on->ends.second;
  std::vector<std::byte> into(message_bytes, untouched);
  const auto message = pattern(message_bytes, 1);
  background receiver(to.get_executor(), to.recv(0, into));
  background sender(from.get_executor(), from.send(0, message));
  const std::size_t before = devices.seen().writes;
  while (devices.seen().writes == before) {
    devices.pump();
    co_await turns(1);
  }
  to.close();
  co_await turns(20);
  EXPECT_FALSE(receiver.is_over());
  devices.deliver(delivery::at_poll);
  const auto of_recv = co_await receiver.failure();
  expect_error(of_recv, errc::channel_closed);
  std::fill(into.begin(), into.end(), untouched);
  co_await sender.failure();
  const auto is_untouched = [](std::byte b) { return b == untouched; };
  EXPECT_TRUE(std::all_of(into.begin(), into.end(), is_untouched)) << "written after it was over";
}

TEST(placed, registers_both_views_for_one_message) {
  run_test(registers_for_one_message());
}
TEST(placed, carries_what_cannot_be_registered) {
  for (const int failures : {1, 2, 3}) run_test(carries_what_cannot_be_registered(failures));
}
TEST(placed, shares_a_message_with_tcp) {
  run_test(shares_a_message_with_tcp());
}
TEST(placed, gives_a_cancelled_receive_back_late) {
  run_test(gives_a_cancelled_receive_back_late());
}
TEST(placed, gives_views_back_when_the_channel_closes) {
  run_test(gives_views_back_when_it_closes());
}

// Regions.

struct one_device {
  explicit one_device(const asio::any_io_executor& executor)
      : network(rdma_network::make(executor, 1, delivery::at_poll)),
        adapter(network->open(sealed::side::connector, 0)),
        all(std::make_shared<verbs::regions>()) {
    all->attach(adapter);
  }
  verbs::registry& memory() { return adapter->memory(); }
  std::size_t registered() { return network->devices().open().mrs; }
  std::shared_ptr<rdma_network> network;
  std::shared_ptr<verbs::adapter> adapter;
  std::shared_ptr<verbs::regions> all;
};

constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

awaitable<void> region_lives_with_its_handle() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  one_device on(executor);
  std::vector<std::byte> bytes(10'000);
  const mutable_view view(bytes);
  EXPECT_EQ(on.memory().registration_for(view, true, never, on.adapter), nullptr);
  region own_region(view, on.all->add(view, {}));
  EXPECT_TRUE(own_region);
  EXPECT_EQ(own_region.describe(), "double0_0: registered host memory");
  EXPECT_EQ(on.registered(), 1u);
  auto used = on.memory().registration_for(view.part(100, 50), true, never, on.adapter);
  auto again = on.memory().registration_for(view, false, never, on.adapter);
  require(used && again, "a region covers the view");
  EXPECT_EQ(used->remote_key, again->remote_key);
  EXPECT_EQ(on.registered(), 1u);
  own_region = {};
  EXPECT_EQ(on.registered(), 1u) << "an operation still uses it";
  EXPECT_EQ(on.memory().registration_for(view, true, never, on.adapter), nullptr);
  used.reset();
  again.reset();
  EXPECT_EQ(on.registered(), 0u);
  auto beyond = on.memory().registration_for(view, true, view.bytes, on.adapter);
  require(beyond != nullptr, "what is long enough is registered for itself");
  EXPECT_EQ(on.registered(), 1u);
}

/// The least recently used is deregistered, and registered again on demand; used ones stay.
awaitable<void> regions_are_bounded() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  one_device on(executor);
  on.memory().bound({2, 25'000});
  std::vector<std::vector<std::byte>> memory(3, std::vector<std::byte>(10'000));
  std::vector<region> all;
  for (auto& one : memory) all.emplace_back(mutable_view(one), on.all->add(one, {}));
  EXPECT_EQ(on.memory().registered_regions(), 2u);
  EXPECT_EQ(on.memory().registered_bytes(), 20'000u);
  EXPECT_EQ(all[0].describe(), "double0_0: registered host memory; tried again at the next use");
  auto first = on.memory().registration_for(memory[0], true, never, on.adapter);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(all[1].describe(), "double0_0: registered host memory; tried again at the next use");
  auto third = on.memory().registration_for(memory[2], true, never, on.adapter);
  auto second = on.memory().registration_for(memory[1], true, never, on.adapter);
  EXPECT_NE(second, nullptr) << "bounds reject no registration";
  EXPECT_EQ(on.memory().registered_regions(), 3u);
  second.reset();
  on.memory().bound({2, 25'000});
  EXPECT_EQ(on.memory().registered_regions(), 2u);
  all.clear();
  EXPECT_EQ(on.registered(), 2u) << "two are still used";
}

/// Idle regions are deregistered where the limit of locked memory is reached; else the device's
/// error is reported.
awaitable<void> region_without_room() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  one_device on(executor);
  std::vector<std::byte> a(10'000), b(10'000);
  const region first(mutable_view(a), on.all->add(a, {}));
  on.network->devices().fail_next(rdma_double::call::reg_mr, ENOMEM);
  const region second(mutable_view(b), on.all->add(b, {}));
  EXPECT_EQ(second.describe(), "double0_0: registered host memory");
  EXPECT_EQ(on.registered(), 1u);
  for (int i = 0; i < 2; ++i) on.network->devices().fail_next(rdma_double::call::reg_mr, ENOMEM);
  EXPECT_EQ(on.memory().registration_for(a, true, never, on.adapter), nullptr);
  EXPECT_NE(first.describe().find("not registered host memory: Cannot allocate memory"),
            std::string::npos)
      << first.describe();
  EXPECT_NE(on.memory().registration_for(a, true, never, on.adapter), nullptr);
}

awaitable<void> regions_carry_without_registering() {
  const auto on = co_await make_stage(1, 1, delivery::at_poll, small_queues());
  rdma_double& devices = on->network->devices();
  const auto all = std::make_shared<verbs::regions>();
  for (const auto side : {sealed::side::connector, sealed::side::listener}) {
    all->attach(on->network->in_use(side, 0));
  }
  std::vector<std::byte> from = pattern(message_bytes, 1), into(message_bytes);
  const region sent(mutable_view(from), all->add(from, {}));
  const region received(mutable_view(into), all->add(into, {}));
  const auto seen = devices.seen();
  for (int i = 0; i < 3; ++i) {
    background sender(on->ends.first->get_executor(), on->ends.first->send(0, from));
    co_await on->ends.second->recv(0, into);
    co_await sender.result();
    EXPECT_EQ(first_wrong(into, 1), std::nullopt);
  }
  EXPECT_EQ(devices.seen().registrations, seen.registrations);
  EXPECT_GE(devices.seen().writes, seen.writes + 60);
}

TEST(regions, live_with_their_handles_and_uses) {
  run_test(region_lives_with_its_handle());
}
TEST(regions, are_bounded) {
  run_test(regions_are_bounded());
}
TEST(regions, make_room_for_each_other) {
  run_test(region_without_room());
}
TEST(regions, carry_without_registering) {
  run_test(regions_carry_without_registering());
}

}  // namespace
}  // namespace tandem::test
