#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <csignal>

#include "store_fixture.hpp"

namespace {

using namespace store_testing;
const tandem::secret some_secret(std::string_view("a secret of the store's tests"));

/// Without and with a job secret.
class store_test : public store_job, public testing::WithParamInterface<bool> {
 protected:
  store_test() {
    if (GetParam()) secret_ = some_secret;
  }
};
INSTANTIATE_TEST_SUITE_P(store, store_test, testing::Bool(), [](const auto& which) {
  return which.param ? "by_secret" : "in_the_clear";
});

// --- keys

TEST_P(store_test, values_are_shared_between_ranks) {
  const auto ranks = all(3);
  outcome<std::vector<std::string>> got;
  start(io_, ranks[2]->get({"b", "a"}, timeout), got);
  EXPECT_FALSE(finish(ranks[0]->set("a", "A")).failure);
  EXPECT_FALSE(got.done);
  const std::string large(500'000, 'x');
  EXPECT_FALSE(finish(ranks[1]->set("b", large)).failure);
  run_until([&] { return got.done; });
  ASSERT_TRUE(got.value);
  EXPECT_EQ(*got.value, (std::vector<std::string>{large, "A"}));
}

TEST_P(store_test, many_concurrent_requests) {
  const auto ranks = all(3);
  std::deque<outcome<std::vector<std::string>>> reads;
  std::deque<outcome<nothing>> writes;
  std::deque<outcome<std::int64_t>> counts;
  for (int i = 0; i < 200; ++i) {
    const std::size_t from = static_cast<std::size_t>(i) % 3;
    start(io_, ranks[from]->get({"k" + std::to_string(i)}, timeout), reads.emplace_back());
    start(io_, ranks[(from + 1) % 3]->set("k" + std::to_string(i), std::to_string(i)),
          writes.emplace_back());
    start(io_, ranks[from]->add("n", i), counts.emplace_back());
  }
  run_until([&] {
    for (int i = 0; i < 200; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (!reads[at].done || !writes[at].done || !counts[at].done) return false;
    }
    return true;
  });
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(reads[static_cast<std::size_t>(i)].value,
              std::vector<std::string>{std::to_string(i)});
  }
  EXPECT_EQ(finish(ranks[0]->add("n", 0)).value, 199 * 200 / 2);
}

TEST_P(store_test, expired_read_names_its_keys) {
  const auto ranks = all(2);
  finish(ranks[0]->set("here", "x"));
  const auto got = finish(ranks[1]->get({"here", "never", "nor this"}, milliseconds(50)));
  EXPECT_TRUE(
      is(got.failure, errc::timed_out, {"keys 'never', 'nor this' missing", "within 0.05 s"}));
  EXPECT_EQ(got.failure->context().rank, 1);
  EXPECT_EQ(finish(ranks[1]->get({"here"}, milliseconds(0))).value, std::vector<std::string>{"x"});
}

TEST_P(store_test, oversized_value_is_refused_without_side_effect) {
  const auto ranks = all(2);
  const auto large = finish(ranks[1]->set("k", std::string(2'000'000, 'x')));
  EXPECT_TRUE(is(large.failure, errc::limit_exceeded, {"'k'", "1048576"}));
  EXPECT_FALSE(finish(ranks[1]->set("k", "small")).failure);
}

TEST_P(store_test, cancelled_read_leaves_store_usable) {
  const auto ranks = all(2);
  asio::cancellation_signal signal;
  outcome<nothing> got;
  asio::co_spawn(
      io_, ranks[1]->get({"never"}, timeout),
      asio::bind_cancellation_slot(
          signal.slot(), [&got](std::exception_ptr e, std::vector<std::string>) { got.end(e); }));
  finish(ranks[1]->set("a", "x"));
  EXPECT_FALSE(got.done);
  signal.emit(asio::cancellation_type::terminal);
  run_until([&] { return got.done; });
  EXPECT_FALSE(got.other.empty());
  EXPECT_FALSE(finish(ranks[0]->set("never", "late")).failure);
  EXPECT_EQ(finish(ranks[1]->get({"never"}, timeout)).value, std::vector<std::string>{"late"});
}

// --- losses, reports, close

TEST_P(store_test, lost_rank_is_reported_to_all_others) {
  for (const std::size_t victim : {std::size_t{2}, std::size_t{0}}) {
    auto ranks = all(4);
    std::vector<loss_record> each(4);
    for (std::size_t rank = 0; rank < 4; ++rank) listen(*ranks[rank], each[rank]);
    outcome<std::vector<std::string>> waiting;
    start(io_, ranks[3]->get({"never"}, timeout), waiting);
    run_ready();
    ranks[victim].reset();
    const std::string named = "rank " + std::to_string(victim) + " is gone";
    std::optional<error> first;
    run_until([&] {
      for (std::size_t rank = 0; rank < 4; ++rank) {
        if (rank != victim && each[rank].times == 0) return false;
      }
      return waiting.done;
    });
    EXPECT_EQ(each[victim].times, 0);
    EXPECT_TRUE(is(waiting.failure, errc::peer_lost, {named}));
    for (std::size_t rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      EXPECT_TRUE(is(each[rank].reason, errc::peer_lost, {named}));
      EXPECT_EQ(each[rank].reason->context().peer, static_cast<int>(victim));
      if (!first) first = each[rank].reason;
      EXPECT_STREQ(each[rank].reason->what(), first->what());
    }
    // A second failure is not reported, and requests fail with the first.
    const std::size_t next = victim == 2 ? 1 : 2;
    ranks[next].reset();
    const auto after = finish(ranks[3]->add("n", 1));
    EXPECT_TRUE(is(after.failure, errc::peer_lost, {named}));
    EXPECT_EQ(each[3].times, 1);
  }
}

TEST_P(store_test, notice_waits_for_its_handler) {
  auto ranks = all(3);
  ranks[1].reset();
  const auto failed = finish(ranks[2]->get({"never"}, timeout));
  EXPECT_TRUE(is(failed.failure, errc::peer_lost, {"rank 1 is gone"}));
  loss_record late;
  listen(*ranks[2], late);
  EXPECT_EQ(late.times, 0);
  run_until([&] { return late.times > 0; });
  loss_record later;
  listen(*ranks[2], later);
  run_ready();
  EXPECT_EQ(late.times, 1);
  EXPECT_EQ(later.times, 0);
}

TEST_P(store_test, first_report_reaches_every_rank) {
  for (const std::size_t reporter : {std::size_t{1}, std::size_t{0}}) {
    auto ranks = all(3);
    std::vector<loss_record> each(3);
    for (std::size_t rank = 0; rank < 3; ++rank) listen(*ranks[rank], each[rank]);
    tandem::error_context c;
    c.peer = 2;
    c.detail = "rank 2 fell silent";
    ranks[reporter]->report(error(make_error_code(errc::timed_out), c));
    // Like a process that exits right after its report.
    ranks[reporter].reset();
    run_until([&] { return each[2].times > 0 && each[1 - reporter].times > 0; });
    for (const std::size_t rank : {std::size_t{2}, 1 - reporter}) {
      EXPECT_TRUE(is(each[rank].reason, errc::timed_out, {"rank 2 fell silent"}));
      EXPECT_EQ(each[rank].reason->context().peer, 2);
      EXPECT_EQ(each[rank].reason->context().rank, static_cast<int>(reporter));
    }
    ranks.clear();
    run_ready();
    EXPECT_EQ(each[2].times, 1);
  }
}

TEST_P(store_test, rank_reported_as_lost_knows_by_whom) {
  auto ranks = all(3);
  std::vector<loss_record> each(3);
  for (std::size_t rank = 0; rank < 3; ++rank) listen(*ranks[rank], each[rank]);
  tandem::error_context c;
  c.rank = 1;
  c.peer = 2;
  c.detail = "no traffic for 2 s";
  c.advice = "its host is down";
  ranks[1]->report(error(make_error_code(errc::peer_lost), c));
  run_until([&] { return each[2].times > 0 && each[0].times > 0; });
  EXPECT_TRUE(is(each[2].reason, errc::peer_lost,
                 {"rank 2, peer rank 1", "rank 1 has given up this rank: no traffic for 2 s",
                  "TANDEM_PEER_TIMEOUT_S"}));
  EXPECT_EQ(std::string(each[2].reason->what()).find("its host is down"), std::string::npos);
  EXPECT_TRUE(is(each[0].reason, errc::peer_lost, {"no traffic for 2 s", "its host is down"}));
  EXPECT_EQ(each[0].reason->context().peer, 2);
}

TEST_P(store_test, leaving_is_no_loss) {
  auto ranks = all(4);
  std::vector<loss_record> each(4);
  for (std::size_t rank = 0; rank < 4; ++rank) listen(*ranks[rank], each[rank]);
  ranks[2]->leave();
  ranks[2].reset();
  // Rank 0 closes and its process exits at once while a request is pending.
  outcome<std::vector<std::string>> waiting;
  start(io_, ranks[3]->get({"never"}, timeout), waiting);
  run_ready();
  ranks[0]->leave();
  EXPECT_FALSE(finish(ranks[1]->set("k", "still served")).failure);
  ranks[0].reset();
  run_until([&] { return waiting.done; });
  EXPECT_TRUE(is(waiting.failure, errc::peer_closed, {"rank 0 has left"}));
  const auto later = finish(ranks[1]->add("n", 1));
  EXPECT_TRUE(is(later.failure, errc::peer_closed, {"rank 0 has left"}));
  for (const loss_record& one : each) EXPECT_EQ(one.times, 0) << one.reason->what();
  const auto after = finish(ranks[3]->add("n", 1));
  EXPECT_TRUE(after.failure);
}

TEST_P(store_test, requests_after_leaving_fail) {
  auto ranks = all(2);
  ranks[1]->leave();
  ranks[1]->leave();
  EXPECT_TRUE(is(finish(ranks[1]->add("n", 1)).failure, errc::channel_closed, {"has left"}));
  ranks[0]->leave();
  io_.restart();
  io_.run();
}

// --- destruction

TEST_P(store_test, destroyed_store_ends_pending_requests) {
  auto ranks = all(2);
  std::deque<outcome<std::vector<std::string>>> waiting(2);
  start(io_, ranks[1]->get({"never"}, timeout), waiting[0]);
  start(io_, ranks[0]->get({"never"}, timeout), waiting[1]);
  run_ready();
  ranks.clear();
  run_until([&] { return waiting[0].done && waiting[1].done; });
  EXPECT_TRUE(is(waiting[0].failure, errc::channel_closed, {"destroyed"}));
  EXPECT_TRUE(is(waiting[1].failure, errc::channel_closed, {"destroyed"}));
  io_.restart();
  io_.run();
}

TEST_P(store_test, handler_may_destroy_its_store) {
  auto ranks = all(3);
  bool gone = false;
  ranks[2]->on_lost([&](const error&) {
    ranks[2].reset();
    gone = true;
  });
  ranks[1].reset();
  run_until([&] { return gone; });
  EXPECT_EQ(ranks[2], nullptr);
}

void destroy_after_every_step(const tandem::settings& options) {
  // After every number of steps up to a connected pair with pending reads. The sanitizers detect
  // leaks and use after free.
  int ended_meets = 0;
  for (int steps = 0; ended_meets < 2; ++steps) {
    ASSERT_LT(steps, 1000) << "two ranks never shared a group";
    ended_meets = 0;
    auto io = std::make_unique<asio::io_context>();
    const reserved_port port;
    for (int rank = 0; rank < 2; ++rank) {
      tandem::launch_info who;
      who.rank = rank;
      who.size = 2;
      who.address = "127.0.0.1";
      who.port = port.number();
      asio::co_spawn(*io, tandem::store::meet(who, options),
                     [&ended_meets, &io](std::exception_ptr e, std::shared_ptr<tandem::store> s) {
                       ++ended_meets;
                       ASSERT_FALSE(e) << tandem::describe(e);
                       asio::co_spawn(*io, s->get({"never"}, timeout),
                                      [s](std::exception_ptr, std::vector<std::string>) {});
                     });
    }
    for (int i = 0; i < steps; ++i) io->run_one_for(milliseconds(50));
    io.reset();
  }
}

TEST(store_destruction, io_context_may_be_destroyed_first) {
  tandem::settings options;
  destroy_after_every_step(options);
  options.job_secret = some_secret;
  destroy_after_every_step(options);
}

// --- processes

/// A rank in its own process: writes the error that it gets to `report_fd` and exits.
[[noreturn]] void be_rank(tandem::launch_info who, tandem::settings options, int report_fd) {
  asio::io_context io;
  std::shared_ptr<tandem::store> mine;
  const auto write_report = [report_fd](const std::string& text) {
    const ssize_t written = ::write(report_fd, text.data(), text.size());
    ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  };
  asio::co_spawn(
      io, tandem::store::meet(who, options),
      [&](std::exception_ptr e, std::shared_ptr<tandem::store> s) {
        if (e) write_report(tandem::describe(e));
        mine = std::move(s);
        mine->on_lost([&write_report](const error& reason) { write_report(reason.what()); });
      });
  io.run();
  ::_exit(2);
}

class killed : public store_job, public testing::WithParamInterface<std::tuple<int, bool>> {};

TEST_P(killed, every_other_process_gets_the_same_cause) {
  const auto [victim, by_secret] = GetParam();
  if (by_secret) secret_ = some_secret;
  std::array<pid_t, 3> children{};
  std::array<int, 3> pipes{};
  for (int rank = 0; rank < 3; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    children[at] = ::fork();
    ASSERT_GE(children[at], 0);
    if (children[at] == 0) be_rank(launch_as(rank, 4), within(timeout), ends[1]);
    ::close(ends[1]);
    pipes[at] = ends[0];
  }
  join_result& here = join(launch_as(3, 4));
  run_until([&] { return here.done; });
  loss_record mine;
  if (here.value) listen(**here.value, mine);
  const auto begin = std::chrono::steady_clock::now();
  ::kill(children[static_cast<std::size_t>(victim)], SIGKILL);
  if (here.value) run_until([&] { return mine.times > 0; });
  // Generous: it usually takes milliseconds, but the machine may be busy.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  for (std::size_t rank = 0; rank < 3; ++rank) {
    std::array<char, 1024> text{};
    pollfd wait{pipes[rank], POLLIN, 0};
    if (::poll(&wait, 1, 20'000) <= 0) ::kill(children[rank], SIGKILL);
    const ssize_t n = ::read(pipes[rank], text.data(), text.size());
    ::close(pipes[rank]);
    int status = 0;
    ::waitpid(children[rank], &status, 0);
    if (static_cast<int>(rank) == victim) {
      EXPECT_TRUE(WIFSIGNALED(status));
      EXPECT_EQ(n, 0);
    } else {
      ASSERT_GT(n, 0) << "rank " << rank << " got no error";
      EXPECT_EQ(std::string(text.data(), static_cast<std::size_t>(n)),
                mine.reason ? mine.reason->what() : "");
    }
  }
  ASSERT_TRUE(here.value);
  EXPECT_TRUE(is(mine.reason, errc::peer_lost, {"rank " + std::to_string(victim) + " is gone"}));
}

INSTANTIATE_TEST_SUITE_P(store, killed, testing::Combine(testing::Values(0, 1), testing::Bool()));

}  // namespace
