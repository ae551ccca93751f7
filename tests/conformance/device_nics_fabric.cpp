// Ranks with GPUs and NICs: the transfer method that a job gets by default.

#include <boost/asio/use_awaitable.hpp>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>

#include "doubles/rdma/on_loopback.hpp"
#include "support/channel_case.hpp"
#include "support/device_views.hpp"
#include "support/expected_log.hpp"
#include "support/fabric_maker.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t message_bytes = 1 << 20;
constexpr memory_kind cuda = memory_kind::cuda;

/// Emulates two hosts, although all ranks are here.
settings far_settings() {
  settings made = rdma_settings(rdma_use::on);
  made.peer_copies = made.shared_staging = false;
  return made;
}

struct far_ranks {
  std::string path(int rank) const {
    return all[static_cast<std::size_t>(rank)]->path_to(1 - rank, cuda, cuda);
  }
  awaitable<void> transfer(std::uint64_t seed) {
    write_pattern(gpus, text, message_bytes, seed);
    channel &from = *all[0]->find(1), &to = *all[1]->find(0);
    background sender(from.get_executor(), from.send(0, text.view()));
    co_await to.recv(0, into.view());
    co_await sender.result();
    expect_pattern(gpus, into, message_bytes, seed);
  }

  cuda_double& gpus = gpus_of_this_test();
  fabrics all;
  buffer text{message_bytes, cuda, 0};
  buffer into{message_bytes, cuda, 1};
};

awaitable<void> connect(fabric& self) {
  co_await self.to(1 - self.rank());
}

awaitable<std::shared_ptr<far_ranks>> make_two(settings options) {
  auto made = std::make_shared<far_ranks>();
  made->all = co_await make_job(2, options);
  for (auto& each : made->all) each = devices::make_fabric(std::move(each), options);
  std::vector<awaitable<void>> both;
  for (const auto& each : made->all) both.push_back(connect(*each));
  co_await when_all(std::move(both));
  const auto is_up = [&made] {
    const auto up = [](const fabric& self) {
      const auto lanes = const_cast<fabric&>(self).find(1 - self.rank())->rails();
      return lanes.size() == 2 && lanes[0].state == "up" && lanes[1].state == "up";
    };
    return up(*made->all[0]) && up(*made->all[1]);
  };
  co_await until(is_up, "all lanes");
  co_return made;
}

void close_all(const far_ranks& ranks) {
  for (const auto& each : ranks.all) each->close();
}

class device_nics_of_a_job : public testing::Test {
 protected:
  std::unique_ptr<rdma_double> nics_ = rdma_on_loopback();
};

awaitable<void> device_direct(rdma_double& nics) {
  const auto ranks = co_await make_two(far_settings());
  EXPECT_EQ(ranks->path(0), "forwarding over rails") << "no memory is registered yet";
  co_await ranks->transfer(1);
  EXPECT_EQ(ranks->path(0), "device-direct over rails");
  EXPECT_EQ(ranks->path(1), "device-direct over rails");
  EXPECT_EQ(ranks->all[0]->path_to(1, memory_kind::host, memory_kind::host), "rails");
  EXPECT_EQ(ranks->gpus.seen().copies, 0U);
  EXPECT_GE(nics.seen().bytes, message_bytes);
  close_all(*ranks);
}

TEST_F(device_nics_of_a_job, carry_device_memory_where_it_lies) {
  run_test(device_direct(*nics_));
}

awaitable<void> staged(settings options) {
  const auto ranks = co_await make_two(options);
  co_await ranks->transfer(1);
  EXPECT_EQ(ranks->path(0), "forwarding over rails");
  EXPECT_EQ(ranks->gpus.seen().copied_bytes, 2 * message_bytes);
  close_all(*ranks);
}

TEST_F(device_nics_of_a_job, leave_it_alone_when_disabled) {
  settings options = far_settings();
  options.gpudirect = false;
  run_test(staged(options));
}

/// The NIC fails and is restored, and the allocations are registered with it again.
awaitable<void> nic_fails_and_is_restored(rdma_double& nics) {
  const auto ranks = co_await make_two(far_settings());
  co_await ranks->transfer(1);
  const auto rdma_is = [&ranks](std::string_view state) {
    return ranks->all[0]->find(1)->rails()[0].state == state &&
           ranks->all[1]->find(0)->rails()[0].state == state;
  };
  nics.fail_device(loopback_device);
  co_await until([&rdma_is] { return rdma_is("lost"); }, "the lane is lost");
  co_await ranks->transfer(2);
  EXPECT_EQ(ranks->gpus.seen().copied_bytes, 2 * message_bytes) << "TCP carries what is staged";
  nics.restore_device(loopback_device);
  co_await until([&rdma_is] { return rdma_is("up"); }, "the lane is back");
  co_await ranks->transfer(3);
  EXPECT_EQ(ranks->gpus.seen().copied_bytes, 2 * message_bytes);
  close_all(*ranks);
}

TEST_F(device_nics_of_a_job, may_fail_and_be_restored) {
  expect_log("double0: ibv_open_device");
  run_test(nic_fails_and_is_restored(*nics_));
}

}  // namespace
}  // namespace tandem::test
