// Both ends of a pair on two threads, and several event loops in one process: for ThreadSanitizer.

#include <gtest/gtest.h>

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>

#include "support/channel_case.hpp"
#include "threads/loop_thread.hpp"

namespace tandem::test {
namespace {

using end = std::unique_ptr<channel>;

std::size_t size_of(flow_id flow, std::uint64_t i) {
  return (i * 37 + flow * 101) % (i % 5 == 0 ? 6000 : 300);
}

awaitable<void> sends(channel& on, flow_id flow, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    co_await send_pattern(on, flow, size_of(flow, i), flow * 1000 + i);
  }
}
awaitable<void> receives(channel& on, flow_id flow, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    co_await recv_pattern(on, flow, size_of(flow, i), flow * 1000 + i);
  }
}

awaitable<void> traffic(channel& on) {
  std::vector<awaitable<void>> all;
  for (flow_id flow = 0; flow < 4; ++flow) {
    all.push_back(sends(on, flow, 200));
    all.push_back(receives(on, flow, 200));
  }
  co_await when_all(std::move(all));
}

/// Waits until the peer has received everything: a close frame overtakes nothing but ends all
/// pending operations.
awaitable<void> traffic_and_leave(end on) {
  co_await traffic(*on);
  co_await on->send(50, const_view());
  co_await on->recv(50, mutable_view());
}

TEST(threads, local_pair_under_traffic) {
  loop_thread one, two;
  auto [first, second] = local::make_pair(one.executor(), two.executor(), small_settings());
  one.start(traffic_and_leave(std::move(first)));
  two.start(traffic_and_leave(std::move(second)));
  one.join();
  two.join();
}

/// Sends and receives that are cancelled after a few iterations; any result is accepted.
awaitable<void> cancels(end on, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> into(6000);
  const std::vector<std::byte> message = pattern(6000, seed);
  for (int i = 0; i < 300; ++i) {
    const auto flow = static_cast<flow_id>(random() % 4);
    const bool is_send = random() % 2 == 0;
    auto work = is_send ? failure_of(on->send(flow, const_view(message).part(0, random() % 6000)))
                        : failure_of(on->recv(flow, into));
    const auto ignored = [](awaitable<std::optional<error>> w) -> awaitable<void> {
      co_await std::move(w);
    };
    background part(on->get_executor(), ignored(std::move(work)));
    co_await turns(static_cast<int>(random() % 20));
    part.cancel();
    co_await part.failure();
  }
}

TEST(threads, local_pair_under_cancellation) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    loop_thread one, two;
    auto [first, second] = local::make_pair(one.executor(), two.executor(), small_settings());
    one.start(cancels(std::move(first), seed));
    two.start(cancels(std::move(second), seed + 100));
    one.join();
    two.join();
  }
}

awaitable<void> traffic_until_closed(end on) {
  const auto failure = co_await failure_of(traffic(*on));
  if (!failure) co_return;
  const error_code code = failure->code();
  EXPECT_TRUE(code == errc::channel_closed || code == errc::peer_closed ||
              code == asio::error::operation_aborted)
      << failure->what();
}

awaitable<void> closes_soon(end on, int after) {
  channel& mine = *on;
  background part(mine.get_executor(), traffic_until_closed(std::move(on)));
  co_await turns(after);
  if (!part.is_over()) mine.close();
  co_await part.result();
}

TEST(threads, local_pair_closed_from_either_thread) {
  for (int round = 0; round < 40; ++round) {
    loop_thread one, two;
    auto [first, second] = local::make_pair(one.executor(), two.executor(), small_settings());
    one.start(closes_soon(std::move(first), round * 3));
    two.start(closes_soon(std::move(second), 200 - round * 3));
    one.join();
    two.join();
  }
}

awaitable<void> runs_until_loss(std::unique_ptr<fabric> mine, bool is_lost) {
  const int me = mine->rank();
  std::vector<awaitable<void>> all;
  for (int peer = 0; peer < mine->size(); ++peer) {
    if (peer == me) continue;
    channel& other = co_await mine->to(peer);
    all.push_back(other.send(0, const_view()));
    if (!is_lost) {
      const auto waits = [](channel& on) -> awaitable<void> {
        co_await on.recv(0, mutable_view());
        co_await on.recv(0, mutable_view());
      };
      all.push_back(waits(other));
    }
  }
  const auto failure = co_await failure_of(when_all(std::move(all)));
  if (is_lost) co_return;
  expect_error(failure, errc::peer_lost, {"rank 2"});
}

TEST(threads, local_fabric_loses_a_rank) {
  for (int round = 0; round < 10; ++round) {
    loop_thread loops[3];
    auto all = local::make_fabrics({loops[0].executor(), loops[1].executor(), loops[2].executor()},
                                   small_settings());
    for (int rank = 0; rank < 3; ++rank) {
      loops[rank].start(runs_until_loss(std::move(all[static_cast<std::size_t>(rank)]), rank == 2));
    }
    for (loop_thread& loop : loops) loop.join();
  }
}

awaitable<void> listens(tcp::listener acceptor) {
  end on = co_await acceptor.accept();
  co_await traffic_and_leave(std::move(on));
}
awaitable<void> connects(std::uint16_t port) {
  end on = co_await tcp::connect("127.0.0.1", port, small_settings());
  co_await traffic_and_leave(std::move(on));
}

TEST(threads, tcp_pairs_on_separate_loops) {
  loop_thread loops[4];
  for (int pair = 0; pair < 2; ++pair) {
    tcp::listener acceptor(loops[2 * pair].executor(), "127.0.0.1", 0, small_settings());
    const std::uint16_t port = acceptor.port();
    loops[2 * pair].start(listens(std::move(acceptor)));
    loops[2 * pair + 1].start(connects(port));
  }
  for (loop_thread& loop : loops) loop.join();
}

awaitable<void> listens_for_shm(shm::listener acceptor) {
  end on = co_await acceptor.accept();
  co_await traffic_and_leave(std::move(on));
}
awaitable<void> connects_to_shm(std::string name, settings options) {
  end on = co_await shm::connect(std::move(name), std::move(options));
  co_await traffic_and_leave(std::move(on));
}

TEST(threads, shm_pairs_on_separate_loops) {
  for (const single_copy copies : {single_copy::off, single_copy::on}) {
    settings options = small_settings();
    options.shm_single_copy = copies;
    loop_thread loops[2];
    shm::listener acceptor(loops[0].executor(), "", options);
    const std::string name = acceptor.name();
    loops[0].start(listens_for_shm(std::move(acceptor)));
    loops[1].start(connects_to_shm(name, options));
    for (loop_thread& loop : loops) loop.join();
  }
}

}  // namespace
}  // namespace tandem::test
