// Payloads that NICs move from device memory to device memory: what is registered, who accesses the
// bytes, and the result of failures.

#include <boost/asio/use_awaitable.hpp>

#include "conformance/nic_rig.hpp"

namespace tandem::test {
namespace {

/// Two ends on two emulated hosts, each with a GPU, a NIC and memory.
struct far_peers {
  static awaitable<std::shared_ptr<far_peers>> connect(cuda_double::options as, settings options) {
    cuda_double& gpus = gpus_of_this_test(as);
    const verbs_rig rig =
        co_await verbs_rig::connect(options, 2, 1, rdma_double::delivery::at_poll);
    channel_pair below = rig.rig->channels();
    auto made = std::make_shared<far_peers>(gpus, rig.network);
    made->from = end_over_nics(std::move(below.first), made->nics[0], options);
    made->to = end_over_nics(std::move(below.second), made->nics[1], options);
    co_return made;
  }
  far_peers(cuda_double& on, const std::shared_ptr<rdma_network>& over)
      : gpus(on), network(over), nics{nics_of(over, 0), nullptr} {
    nics[1] =
        std::make_shared<devices::nic_memory>([this](mutable_view memory, const dmabuf& exported) {
          const bool is_allowed = second_accesses_devices || memory.kind == memory_kind::host;
          return is_allowed ? network->register_memory(1, memory, exported) : region();
        });
  }

  awaitable<void> transfer(const buffer& text, const buffer& into, std::size_t bytes,
                           std::uint64_t seed) {
    write_pattern(gpus, text, bytes, seed);
    background receiver(to->get_executor(), to->recv(0, into.view().part(0, bytes)));
    co_await from->send(0, const_view(text.view()).part(0, bytes));
    const std::size_t came = co_await receiver.result();
    EXPECT_EQ(came, bytes);
    expect_pattern(gpus, into, bytes, seed);
  }

  cuda_double& gpus;
  std::shared_ptr<rdma_network> network;
  std::shared_ptr<devices::nic_memory> nics[2];
  bool second_accesses_devices = true;
  std::unique_ptr<channel> from, to;
  buffer text{1 << 20, memory_kind::cuda, 0};
  buffer into{1 << 20, memory_kind::cuda, 1};
};

using far_body = awaitable<void> (*)(far_peers& all);

awaitable<void> with_far_peers(far_body run, cuda_double::options as) {
  const std::shared_ptr<far_peers> all = co_await far_peers::connect(as, small_settings());
  co_await run(*all);
}

/// NIC_TEST(name, options) { body of a coroutine with `all` }
#define NIC_TEST(name, ...)                                                   \
  static awaitable<void> nics_##name(far_peers&);                             \
  TEST(device_nics, name) {                                                   \
    run_test(with_far_peers(nics_##name, cuda_double::options{__VA_ARGS__})); \
  }                                                                           \
  static awaitable<void> nics_##name(far_peers& all)

NIC_TEST(no_processor_touches_a_byte) {
  for (const std::size_t bytes : {std::size_t{5001}, std::size_t{100'000}, std::size_t{1} << 20}) {
    const std::size_t written = all.network->devices().seen().writes;
    co_await all.transfer(all.text, all.into, bytes, bytes);
    EXPECT_GE(all.network->devices().seen().writes - written, bytes / 1024);
  }
  EXPECT_EQ(all.gpus.seen().copies, 0U);
  EXPECT_EQ(all.gpus.open().pinned, 0U) << "nothing was staged";
  EXPECT_EQ(all.gpus.seen().launches, 0U);
  EXPECT_EQ(all.nics[0]->allocations(), 1U);
}

NIC_TEST(a_view_is_flushed_before_it_is_complete) {
  co_await all.transfer(all.text, all.into, 8 * 1024, 1);
  EXPECT_EQ(all.gpus.calls("cuFlushGPUDirectRDMAWrites"), 8U) << "once for each piece";
}

NIC_TEST(nothing_is_flushed_where_writes_are_in_order, .writes_ordering = 100) {
  co_await all.transfer(all.text, all.into, 8 * 1024, 1);
  EXPECT_EQ(all.gpus.calls("cuFlushGPUDirectRDMAWrites"), 0U);
  EXPECT_EQ(all.gpus.seen().copies, 0U);
}

NIC_TEST(a_flush_that_fails_ends_its_receive_alone) {
  co_await all.transfer(all.text, all.into, 5000, 1);
  all.gpus.fail("cuFlushGPUDirectRDMAWrites", 1, 999);
  background receiver(all.to->get_executor(), all.to->recv(0, all.into.view()));
  background sender(all.from->get_executor(),
                    all.from->send(0, const_view(all.text.view()).part(0, 900)));
  const auto of_recv = co_await receiver.failure();
  expect_error(of_recv, errc::device_failed, {"cuFlushGPUDirectRDMAWrites"});
  const auto of_send = co_await sender.failure();
  EXPECT_FALSE(of_send);
  co_await all.transfer(all.text, all.into, 5000, 2);
}

/// The last piece is short enough for a copy through pinned memory.
NIC_TEST(a_short_last_piece_is_staged) {
  co_await all.transfer(all.text, all.into, 4 * 1024 + 100, 1);
  EXPECT_EQ(all.gpus.seen().copied_bytes, 200U) << "to the host, and from it";
}

NIC_TEST(memory_that_is_not_exported_is_staged, .dma_buf = false) {
  co_await all.transfer(all.text, all.into, 100'000, 1);
  EXPECT_EQ(all.gpus.seen().copied_bytes, 200'000U);
}

/// Registered staging is written by NICs as well: no slot of the lane is used.
NIC_TEST(memory_that_nics_cannot_register_is_staged) {
  all.network->devices().table().reg_dmabuf_mr = nullptr;
  const std::size_t written = all.network->devices().seen().writes;
  co_await all.transfer(all.text, all.into, 100 * 1024, 1);
  EXPECT_EQ(all.gpus.seen().copied_bytes, 200U * 1024);
  EXPECT_GE(all.network->devices().seen().writes - written, 100U);
}

NIC_TEST(only_the_nics_of_one_end_access_its_device) {
  all.second_accesses_devices = false;
  co_await all.transfer(all.text, all.into, 100 * 1024, 1);
  EXPECT_EQ(all.gpus.seen().copied_bytes, 100U * 1024) << "into the view, out of the staging";
}

NIC_TEST(memory_that_was_freed_is_not_registered_for_ever) {
  for (std::uint64_t round = 1; round < 20; ++round) {
    const buffer text(20'000, memory_kind::cuda, 0), into(20'000, memory_kind::cuda, 1);
    co_await all.transfer(text, into, 20'000, round);
  }
  EXPECT_LE(all.nics[0]->allocations(), 2U) << "one that is gone, and another";
  EXPECT_EQ(all.gpus.seen().copies, 0U);
}

/// One more than the limit.
TEST(nic_memory, evicts_the_least_recently_used) {
  cuda_double& gpus = gpus_of_this_test();
  std::vector<const void*> registered;
  devices::nic_memory nics(
      [&registered](mutable_view memory, const dmabuf& exported) {
        EXPECT_GE(exported.descriptor, 0);
        registered.push_back(memory.data);
        return region(memory, nullptr);
      },
      2);
  const buffer all[3] = {buffer(9000, memory_kind::cuda, 0), buffer(100, memory_kind::cuda, 0),
                         buffer(100, memory_kind::cuda, 0)};
  accelerator& gpu = accelerator_at(memory_kind::cuda, 0);
  for (const int which : {0, 1, 0, 2, 0, 1}) {
    nics.add(gpu, const_view(all[which].view()).part(50, 10));
    EXPECT_LE(nics.allocations(), 2U);
  }
  const std::vector<const void*> expected{all[0].data(), all[1].data(), all[2].data(),
                                          all[1].data()};
  EXPECT_EQ(registered, expected);
  EXPECT_EQ(gpus.calls("cuMemGetHandleForAddressRange"), 4U);
}

}  // namespace
}  // namespace tandem::test
