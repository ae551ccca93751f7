// Rails whose NICs access device memory, and what carries it when the NICs are lost during a
// message: one RDMA lane with TCP as standby.

#include <unistd.h>

#include <boost/asio/use_awaitable.hpp>

#include "conformance/nic_rig.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t long_bytes = 100'000;

/// Device memory registered with one side's NICs.
struct registered_buffer {
  registered_buffer(const rdma_network& network, int side, std::size_t bytes)
      : memory(bytes, memory_kind::cuda, side) {
    accelerator& gpu = accelerator_at(memory_kind::cuda, side);
    const accelerator::dma_buf exported = gpu.export_dma_buf(memory.data(), bytes);
    registration =
        network.register_memory(side, memory.view(), {exported.descriptor, exported.offset_bytes});
    ::close(exported.descriptor);
  }
  const_view part(std::size_t bytes) const { return const_view(memory.view()).part(0, bytes); }
  mutable_view writable(std::size_t bytes) const { return memory.view().part(0, bytes); }
  buffer memory;
  region registration;
};

struct rails_of_devices {
  explicit rails_of_devices(const verbs_rig& made)
      : gpus(gpus_of_this_test()),
        network(made.network),
        rig(made.rig),
        ends(made.rig->channels()),
        text(*network, 0, 1 << 20),
        into(*network, 1, 1 << 20) {}

  /// Permanently: the port is down.
  awaitable<void> lose_rdma() {
    network->devices().drop_link(rdma_network::device_name(0, 0));
    const auto is_lost = [this] {
      return ends.first->rails()[0].state != "up" && ends.second->rails()[0].state != "up";
    };
    co_await poll_until(is_lost, "the lane over RDMA is lost");
  }
  /// For a message that is announced, and whose bytes then only TCP can carry.
  awaitable<void> announce_and_lose_rdma(background& sender) {
    co_await until_announced();
    EXPECT_FALSE(sender.is_over());
    co_await lose_rdma();
  }
  awaitable<void> until_announced() { co_await turns(50); }

  cuda_double& gpus;
  std::shared_ptr<rdma_network> network;
  std::shared_ptr<rails_rig> rig;
  channel_pair ends;
  registered_buffer text, into;
};

using rails_body = awaitable<void> (*)(rails_of_devices& all);

awaitable<void> with_rails(rails_body run) {
  gpus_of_this_test();
  const verbs_rig made =
      co_await verbs_rig::connect(small_settings(), 2, 1, rdma_double::delivery::at_poll);
  rails_of_devices all(made);
  EXPECT_TRUE(all.ends.first->is_zero_copy({}));
  EXPECT_TRUE(all.ends.first->is_zero_copy(all.text.part(long_bytes)));
  EXPECT_TRUE(all.ends.second->is_zero_copy(all.into.part(long_bytes)));
  write_pattern(all.gpus, all.text.memory, all.text.memory.size(), 7);
  co_await run(all);
}

#define RAILS_TEST(name)                                  \
  static awaitable<void> rails_##name(rails_of_devices&); \
  TEST(rails_of_devices_test, name) {                     \
    run_test(with_rails(rails_##name));                   \
  }                                                       \
  static awaitable<void> rails_##name([[maybe_unused]] rails_of_devices& all)

RAILS_TEST(nics_move_registered_memory) {
  channel &from = *all.ends.first, &to = *all.ends.second;
  background sender(from.get_executor(), from.send(0, all.text.part(long_bytes)));
  const std::size_t came = co_await to.recv(0, all.into.writable(long_bytes));
  EXPECT_EQ(came, long_bytes);
  co_await sender.result();
  expect_pattern(all.gpus, all.into.memory, long_bytes, 7);
  EXPECT_EQ(all.gpus.seen().copies, 0U);
}

RAILS_TEST(short_messages_are_delivered) {
  channel &from = *all.ends.first, &to = *all.ends.second;
  // One message that matches a posted receive, and an unexpected one.
  background receiver(to.get_executor(), to.recv(0, all.into.writable(100)));
  co_await from.send(0, all.text.part(100));
  const std::size_t came = co_await receiver.result();
  EXPECT_EQ(came, 100U);
  expect_pattern(all.gpus, all.into.memory, 100, 7);
  co_await from.send(1, all.text.part(200));
  co_await until_unexpected(to, 200);
  const std::size_t later = co_await to.recv(1, all.into.writable(200));
  EXPECT_EQ(later, 200U);
  expect_pattern(all.gpus, all.into.memory, 200, 7);
}

RAILS_TEST(registrations_of_the_other_end_are_not_used) {
  EXPECT_FALSE(all.ends.first->is_zero_copy(all.into.part(10)));
  EXPECT_FALSE(all.ends.second->is_zero_copy(all.text.part(10)));
  co_return;
}

awaitable<void> refused_over_tcp() {
  const std::shared_ptr<rails_rig> rig = co_await rails_rig::connect(small_settings(), 1);
  const channel_pair ends = rig->channels();
  EXPECT_FALSE(ends.first->is_zero_copy({}));
  const buffer text(1000, memory_kind::cuda, 0);
  const auto of_send = co_await failure_of(ends.first->send(0, text.view()));
  expect_error(of_send, errc::unsupported_memory, {"cuda", "devices::make_fabric"});
  const auto of_recv = co_await failure_of(ends.second->recv(0, text.view()));
  expect_error(of_recv, errc::unsupported_memory, {"cuda", "devices::make_fabric"});
  co_await expect_usable(*ends.first, *ends.second);
}

TEST(rails_of_devices_test, memory_of_devices_is_refused_without_such_nics) {
  gpus_of_this_test();
  run_test(refused_over_tcp());
}

RAILS_TEST(tcp_carries_what_was_announced_when_rdma_is_lost) {
  channel &from = *all.ends.first, &to = *all.ends.second;
  background sender(from.get_executor(), from.send(0, all.text.part(long_bytes)));
  co_await all.announce_and_lose_rdma(sender);
  EXPECT_FALSE(from.is_zero_copy(all.text.part(long_bytes)));
  const std::size_t came = co_await to.recv(0, all.into.writable(long_bytes));
  EXPECT_EQ(came, long_bytes);
  co_await sender.result();
  expect_pattern(all.gpus, all.into.memory, long_bytes, 7);
  EXPECT_EQ(all.gpus.seen().copied_bytes, 2 * long_bytes);
}

RAILS_TEST(a_device_that_cannot_be_read_ends_the_channel) {
  channel &from = *all.ends.first, &to = *all.ends.second;
  background sender(from.get_executor(), from.send(0, all.text.part(long_bytes)));
  co_await all.announce_and_lose_rdma(sender);
  all.gpus.fail("cuMemcpyAsync", 1, 999);
  background receiver(to.get_executor(), to.recv(0, all.into.writable(long_bytes)));
  const auto of_send = co_await sender.failure();
  expect_error(of_send, errc::device_failed, {"cuMemcpyAsync"});
  const auto of_recv = co_await receiver.failure();
  expect_error(of_recv, errc::peer_closed, {"closed the channel after an error"});
}

RAILS_TEST(a_view_that_cannot_be_written_ends_its_receive_alone) {
  channel &from = *all.ends.first, &to = *all.ends.second;
  background sender(from.get_executor(), from.send(0, all.text.part(900)));
  co_await all.announce_and_lose_rdma(sender);
  all.gpus.fail("cuMemcpyAsync", 2, 999);
  const auto of_recv = co_await failure_of(to.recv(0, all.into.writable(900)));
  expect_error(of_recv, errc::device_failed, {"cuMemcpyAsync"});
  const auto of_send = co_await sender.failure();
  EXPECT_FALSE(of_send);
  co_await expect_usable(from, to);
}

RAILS_TEST(a_receive_that_is_cancelled_gets_no_more) {
  channel &from = *all.ends.first, &to = *all.ends.second;
  const std::size_t bytes = all.text.memory.size();
  background sender(from.get_executor(), from.send(0, all.text.part(bytes)));
  co_await all.announce_and_lose_rdma(sender);
  background receiver(to.get_executor(), to.recv(0, all.into.writable(bytes)));
  const auto is_filling = [&all] { return all.gpus.seen().copies > 1; };
  co_await until(is_filling, "a piece that is there");
  EXPECT_FALSE(receiver.is_over());
  receiver.cancel();
  const auto of_recv = co_await receiver.failure();
  expect_aborted(of_recv);
  const std::byte* const there = all.gpus.host(all.into.memory.data(), bytes);
  const std::vector<std::byte> kept(there, there + bytes);
  const auto of_send = co_await sender.failure();
  EXPECT_FALSE(of_send);
  co_await expect_usable(from, to);
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), there)) << "written after it was over";
}

}  // namespace
}  // namespace tandem::test
