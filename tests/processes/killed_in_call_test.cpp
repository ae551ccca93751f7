// A rank's process is killed after each step of each algorithm: every other rank fails with an
// error that names it, within a second. tests/collectives/killed_test.cpp does the same in one
// process, for every rank and order of steps.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <functional>
#include <tandem/channels.hpp>
#include <tandem/detail/board_sharing.hpp>
#include <tandem/store.hpp>

#include "collectives/every_call.hpp"
#include "collectives/job.hpp"
#include "support/attempts.hpp"
#include "support/fabric_maker.hpp"
#include "support/reserved_port.hpp"
#include "support/sanitized.hpp"

namespace tandem::test {
namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int size = 3;
constexpr int never = 1 << 30;
const std::string done = "done";
constexpr auto soon = unless_sanitized(1s, 10s);
constexpr auto in_time = unless_sanitized(7s, 10s);  // also on a busy machine

struct transport {
  const char* name;
  fabric_maker make;
  settings options = small_pieces();
};
const transport transports[] = {{"tcp", tcp::make_fabric},
                                {"shm", shm::make_fabric},
                                {"rails", rails::make_fabric, on_two_rails(small_pieces())},
                                {"mixed", make_mixed}};

const transport* const all_transports[] = {&transports[0], &transports[1], &transports[2],
                                           &transports[3]};

struct part;
/// Body of a rank after the rendezvous.
using script = asio::awaitable<void> (*)(part mine, fabric& over, bool& counting);

struct part {
  script act;
  int rank, call;
  const transport* by;
  std::uint16_t port;
  int steps;  // handlers until it kills itself, counted from when all ranks are connected
};

asio::awaitable<void> in_a_call(part mine, fabric& over, bool& counting) {
  for (int peer = 0; peer < size; ++peer) {
    if (peer != mine.rank) co_await over.to(peer);
  }
  communicator world(over, mine.by->options);
  if (over.kind() == "shm") {
    const bool shares = co_await detail::share_board(world);
    if (!shares) throw std::runtime_error("they share no board");
  }
  co_await barrier(world);
  counting = true;
  co_await asio::post(asio::use_awaitable);  // a rank killed here has sent nothing
  every_call call;
  co_await call.make(world, mine.call);
  // Ranks that need nothing from the lost rank get the error here.
  co_await barrier(world);
}

asio::awaitable<void> run_rank(part mine, bool& counting, std::string& report) {
  launch_info who;
  who.rank = who.local_rank = mine.rank;
  who.size = who.local_size = size;
  who.address = "127.0.0.1";
  who.port = mine.port;
  who.job = "killed";
  const settings& options = mine.by->options;
  std::shared_ptr<store> meeting = co_await store::meet(who, options);
  const std::unique_ptr<fabric> over = co_await mine.by->make(std::move(meeting), options);
  co_await mine.act(mine, *over, counting);
  report = done;
  over->close();
}

/// Main function of a rank's process: writes its result to `output` unless it is killed.
[[noreturn]] void be_rank(part mine, int output) {
  asio::io_context loop;
  bool counting = false, over = false;
  std::string report;
  asio::co_spawn(loop, run_rank(mine, counting, report), [&](std::exception_ptr failure) {
    over = true;
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const error& e) {
      report = e.code() == errc::peer_lost ? e.what() : std::string("not lost: ") + e.what();
    } catch (const std::exception& e) {
      report = std::string("not lost: ") + e.what();
    }
  });
  for (int steps = 0; !over; steps += counting ? 1 : 0) {
    if (counting && steps > mine.steps) ::kill(::getpid(), SIGKILL);
    loop.run_one();
  }
  const ssize_t wrote = ::write(output, report.data(), report.size());
  ::_exit(wrote == static_cast<ssize_t>(report.size()) ? 0 : 1);
}

class rank_process {
 public:
  explicit rank_process(const part& mine) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
    id_ = ::fork();
    if (id_ == 0) be_rank(mine, ends[1]);
    ::close(ends[1]);
    output_ = ends[0];
  }
  ~rank_process() {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
    ::close(output_);
  }
  rank_process(const rank_process&) = delete;
  rank_process& operator=(const rank_process&) = delete;

  /// Output of the rank until it exits; "hangs" after the deadline.
  std::string read_to_end(clock::time_point deadline) {
    std::string text;
    for (std::array<char, 1024> block{};;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock::now());
      pollfd ready{output_, POLLIN, 0};
      if (::poll(&ready, 1, std::max<int>(static_cast<int>(left.count()), 0)) <= 0) return "hangs";
      const ssize_t bytes = ::read(output_, block.data(), block.size());
      if (bytes <= 0) return text;
      text.append(block.data(), static_cast<std::size_t>(bytes));
    }
  }

 private:
  pid_t id_ = -1;
  int output_ = -1;
};

/// What becomes of the ranks when one is killed.
struct outcome {
  bool is_killed = false;   // else it had completed before
  int failures = 0;         // of the others
  bool ended_soon = false;  // all of them
};

/// A loss after which the others have ended soon.
outcome until_soon(const std::function<outcome()>& lose) {
  outcome found;
  EXPECT_TRUE(succeeds_once([&] {
    found = lose();
    return found.ended_soon;
  })) << "the others ended late each time";
  return found;
}

outcome lose(const transport& by, int call, int lost, int steps) {
  SCOPED_TRACE(every_call::name(call) + " over " + by.name + ", rank " + std::to_string(lost) +
               " killed after " + std::to_string(steps) + " steps");
  const reserved_port port;
  std::vector<std::unique_ptr<rank_process>> ranks;
  for (int r = 0; r < size; ++r) {
    const part mine{in_a_call, r, call, &by, port.number(), r == lost ? steps : never};
    ranks.push_back(std::make_unique<rank_process>(mine));
  }
  const std::string last = ranks[static_cast<std::size_t>(lost)]->read_to_end(clock::now() + 30s);
  const auto lost_at = clock::now();
  outcome found{.is_killed = last.empty()};
  EXPECT_TRUE(last.empty() || last == done) << last;
  for (int r = 0; r < size; ++r) {
    if (r == lost) continue;
    const std::string text = ranks[static_cast<std::size_t>(r)]->read_to_end(lost_at + in_time);
    if (text == done) continue;
    ++found.failures;
    const std::string who = "rank " + std::to_string(lost);
    EXPECT_NE(text.find(who), std::string::npos) << "rank " << r << ": " << text;
    EXPECT_EQ(text.find("not lost"), std::string::npos) << "rank " << r << ": " << text;
  }
  found.ended_soon = clock::now() - lost_at <= soon;
  return found;
}

asio::awaitable<void> send_empty(fabric& over, int peer) {
  channel& to = co_await over.to(peer);
  co_await to.send(0, const_view());
}

asio::awaitable<void> receive_empty(fabric& over, int peer) {
  channel& from = co_await over.to(peer);
  co_await from.recv(0, mutable_view());
}

/// Rank 2 connects to rank 1, rank 0 closes in order and its store with it, rank 2 is killed.
asio::awaitable<void> after_the_store(part mine, fabric& over, bool&) {
  if (mine.rank == 0) {
    co_await receive_empty(over, 2);
    co_await send_empty(over, 1);
    co_await receive_empty(over, 1);
    co_return;
  }
  if (mine.rank == 2) {
    co_await send_empty(over, 1);
    co_await send_empty(over, 0);
    co_await receive_empty(over, 1);
    ::kill(::getpid(), SIGKILL);
  }
  co_await receive_empty(over, 0);
  co_await receive_empty(over, 2);
  co_await send_empty(over, 0);
  try {
    co_await receive_empty(over, 0);
  } catch (const error& e) {
    if (e.code() != errc::peer_closed) throw;
  }
  co_await send_empty(over, 2);
  co_await receive_empty(over, 2);
}

outcome lose_after_the_store(const transport* by) {
  const reserved_port port;
  std::vector<std::unique_ptr<rank_process>> ranks;
  for (int r = 0; r < size; ++r) {
    const part mine{after_the_store, r, 0, by, port.number(), never};
    ranks.push_back(std::make_unique<rank_process>(mine));
  }
  EXPECT_EQ(ranks[0]->read_to_end(clock::now() + 30s), done);
  EXPECT_EQ(ranks[2]->read_to_end(clock::now() + 30s), "");
  const auto lost_at = clock::now();
  const std::string text = ranks[1]->read_to_end(lost_at + in_time);
  EXPECT_NE(text.find("rank 2"), std::string::npos) << text;
  EXPECT_EQ(text.find("not lost"), std::string::npos) << text;
  return {true, 1, clock::now() - lost_at <= soon};
}

class killed_after_the_store : public testing::TestWithParam<const transport*> {};

TEST_P(killed_after_the_store, is_detected_by_the_rank_it_connected_to) {
  until_soon([] { return lose_after_the_store(GetParam()); });
}

INSTANTIATE_TEST_SUITE_P(of, killed_after_the_store, testing::ValuesIn(all_transports),
                         [](const auto& one) { return std::string(one.param->name); });

class killed_in : public testing::TestWithParam<std::tuple<const transport*, int>> {};

TEST_P(killed_in, any_step_others_fail_naming_the_rank) {
  const auto [by, call] = GetParam();
  const auto lose_soon = [by = by, call = call](int lost, int steps) {
    return until_soon([&] { return lose(*by, call, lost, steps); });
  };
  int failures = lose_soon(1, 0).failures, lost = 0;
  EXPECT_EQ(failures, size - 1) << "killed before it sent anything";
  // Each step kills another rank; three completed runs in a row end the loop.
  for (int steps = 1, over = 0; over < size && !HasFailure(); ++steps, lost = (lost + 1) % size) {
    const outcome found = lose_soon(lost, steps);
    failures += found.failures;
    over = found.is_killed ? 0 : over + 1;
  }
  // A call over a board is one step and may complete with it.
  const bool has_steps = !every_call::name(call).ends_with("by board");
  EXPECT_GT(failures, has_steps ? 2 * (size - 1) : size - 2);
}

std::string name_of(const testing::TestParamInfo<std::tuple<const transport*, int>>& one) {
  return every_call::test_name(std::get<1>(one.param)) + "_over_" + std::get<0>(one.param)->name;
}

INSTANTIATE_TEST_SUITE_P(of, killed_in,
                         testing::Combine(testing::ValuesIn(all_transports),
                                          testing::Range(0, every_call::count())),
                         name_of);

}  // namespace
}  // namespace tandem::test
