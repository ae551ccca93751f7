// Two connections of a lane without a link: how much a receiver that does not read lets through.

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>

#include "support/verbs_rig.hpp"

namespace tandem::test {
namespace {

/// Sends as much as it may of an endless pattern.
class writer {
 public:
  explicit writer(rails::lane_connection& to) : to_(to), bytes_(pattern(max_bytes, 1)) {}
  void write_all(std::mt19937& random) {
    while (sent < max_bytes - 20'000) {
      const std::size_t length = 1 + random() % (random() % 2 == 0 ? 1'000 : 20'000);
      const iovec part{bytes_.data() + sent, length};
      const ssize_t n = to_.send(std::span(&part, 1));
      if (n < 0) {
        EXPECT_EQ(errno, EAGAIN);
        return;
      }
      sent += static_cast<std::size_t>(n);
    }
  }
  std::size_t sent = 0;

 private:
  static constexpr std::size_t max_bytes = 2'000'000;
  rails::lane_connection& to_;
  std::vector<std::byte> bytes_;
};

std::vector<std::byte> read_all(rails::lane_connection& from) {
  std::vector<std::byte> all;
  std::byte some[3000];
  for (;;) {
    const iovec part{some, sizeof some};
    const ssize_t n = from.receive(std::span(&part, 1));
    if (n <= 0) {
      EXPECT_TRUE(n < 0 && errno == EAGAIN) << from.describe(errno);
      return all;
    }
    all.insert(all.end(), some, some + n);
  }
}

awaitable<void> receiver_does_not_read(rdma_double::delivery when, std::uint32_t seed) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto network = rdma_network::make(executor, 1, rdma_double::delivery::at_poll);
  const lane_connection_pair connections = co_await lane_connection_pair::connect(*network, 0);
  network->devices().deliver(when);
  std::mt19937 random(seed);
  const verbs::queue_depths queue_depths = small_queues();
  const std::size_t max_in_flight = queue_depths.records * queue_depths.record_bytes +
                                    queue_depths.chunks * queue_depths.chunk_bytes;
  writer there(*connections.ends[0]), back(*connections.ends[1]);
  std::vector<std::byte> got[2];
  for (int round = 0; round < 50; ++round) {
    const std::size_t before[2] = {there.sent - got[0].size(), back.sent - got[1].size()};
    there.write_all(random);
    if (random() % 2 == 0) back.write_all(random);
    EXPECT_LE(there.sent - got[0].size(), before[0] + max_in_flight);
    EXPECT_GT(there.sent, got[0].size());
    network->devices().pump_all();
    co_await turns(static_cast<int>(random() % 3));
    for (const int side : {1, 0}) {
      const std::vector<std::byte> some = read_all(*connections.ends[side]);
      got[1 - side].insert(got[1 - side].end(), some.begin(), some.end());
    }
    network->devices().pump_all();
  }
  for (int i = 0; i < 3; ++i) {
    network->devices().pump_all();
    for (const int side : {1, 0}) {
      const std::vector<std::byte> some = read_all(*connections.ends[side]);
      got[1 - side].insert(got[1 - side].end(), some.begin(), some.end());
    }
  }
  const std::vector<std::byte> sent = pattern(2'000'000, 1);
  EXPECT_EQ(got[0].size(), there.sent);
  EXPECT_EQ(got[1].size(), back.sent);
  for (const auto& one : got) EXPECT_TRUE(std::equal(one.begin(), one.end(), sent.begin()));
  EXPECT_EQ(network->devices().seen().rnr, 0u);
}

TEST(verbs_lane, sends_no_more_than_the_receiver_has_room_for) {
  using enum rdma_double::delivery;
  for (const auto when : {at_post, at_poll, by_pump}) {
    for (std::uint32_t seed = 0; seed < 5; ++seed) run_test(receiver_does_not_read(when, seed));
  }
}

/// All bytes that were sent arrive before the end.
awaitable<void> close_in_order() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto network = rdma_network::make(executor, 1, rdma_double::delivery::at_poll);
  const lane_connection_pair connections = co_await lane_connection_pair::connect(*network, 0);
  std::mt19937 random(1);
  writer there(*connections.ends[0]), back(*connections.ends[1]);
  back.write_all(random);  // the end sees completions of its own before what arrived
  there.write_all(random);
  connections.ends[0]->close(false);
  std::vector<std::byte> got;
  std::byte some[3000];
  for (bool open = true; open;) {
    const iovec part{some, sizeof some};
    const ssize_t n = connections.ends[1]->receive(std::span(&part, 1));
    if (n > 0) got.insert(got.end(), some, some + n);
    if (n < 0 && errno != EAGAIN) {
      // A credit update for the last bytes finds the peer gone.
      EXPECT_EQ(errno, ECONNRESET) << connections.ends[1]->describe(errno);
      break;
    }
    if (n < 0) co_await turns(1);
    open = n > 0 || (n < 0 && errno == EAGAIN);
  }
  EXPECT_EQ(got.size(), there.sent);
}

TEST(verbs_lane, ends_after_all_that_was_sent) {
  run_test(close_in_order());
}

}  // namespace
}  // namespace tandem::test
