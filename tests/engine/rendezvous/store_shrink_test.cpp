// Ranks that go on after a loss.
#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <string>

#include "store_fixture.hpp"
#include "support/expected_log.hpp"

namespace {

using namespace store_testing;
using tandem::test::expect_log;
using stores = std::vector<std::shared_ptr<tandem::store>>;

/// Both without a secret and with one.
class store_shrink_test : public store_job, public testing::WithParamInterface<bool> {
 protected:
  store_shrink_test() {
    if (GetParam()) secret_ = tandem::secret(std::string_view("a secret that all ranks have"));
  }

  tandem::settings surviving(std::size_t least, milliseconds limit = timeout) const {
    tandem::settings options = within(limit);
    options.min_survivors = least;
    return options;
  }

  stores start_job(int size, const tandem::settings& options) {
    std::vector<join_result*> each;
    for (int rank = 0; rank < size; ++rank) each.push_back(&join(launch_as(rank, size), options));
    run_until([&] { return all_done(each); });
    stores made;
    for (const join_result* one : each) {
      EXPECT_TRUE(one->value) << (one->failure ? one->failure->what() : one->other);
      made.push_back(one->value.value_or(nullptr));
    }
    joins_.clear();
    return made;
  }

  static asio::awaitable<std::shared_ptr<tandem::store>> shrink(std::shared_ptr<tandem::store> s) {
    const auto next = co_await s->shrink();
    co_return next;
  }

  /// Kills ranks, and lets all others shrink the job. The results of those, in order.
  std::deque<join_result> survive(stores& ranks, const std::vector<std::size_t>& victims) {
    for (const std::size_t victim : victims) ranks[victim].reset();
    std::deque<join_result> results;
    for (const auto& one : ranks) {
      if (one) start(io_, shrink(one), results.emplace_back());
    }
    run_until([&] {
      return std::all_of(results.begin(), results.end(), [](const auto& r) { return r.done; });
    });
    return results;
  }

  /// The new stores of ranks that must have got one.
  static stores values(std::deque<join_result>& results) {
    stores made;
    for (const join_result& one : results) {
      EXPECT_TRUE(one.value) << (one.failure ? one.failure->what() : one.other);
      made.push_back(one.value.value_or(nullptr));
    }
    return made;
  }
};

TEST_P(store_shrink_test, survivors_have_consecutive_ranks) {
  for (const std::size_t victim : {0u, 1u, 3u}) {
    stores ranks = start_job(4, surviving(1));
    const tandem::secret before = ranks[2]->data_key();
    std::vector<int> left{0, 1, 2, 3};
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(victim));
    auto results = survive(ranks, {victim});
    const stores next = values(results);
    ASSERT_EQ(next.size(), 3u);
    for (int rank = 0; rank < 3; ++rank) {
      const tandem::store& one = *next[static_cast<std::size_t>(rank)];
      EXPECT_EQ(one.who().rank, rank);
      EXPECT_EQ(one.who().size, 3);
      EXPECT_EQ(one.who().job, "job+1");
      EXPECT_EQ(one.who().is_server(), rank == 0);
      EXPECT_EQ(one.previous_ranks(), left);
      EXPECT_EQ(one.data_key().text(), next[0]->data_key().text());
      EXPECT_EQ(one.data_key().text() == before.text(), !GetParam());
    }
    EXPECT_FALSE(finish(next[2]->set("key", "value")).failure);
    EXPECT_EQ(finish(next[1]->get({"key"}, timeout)).value, std::vector<std::string>{"value"});
  }
}

TEST_P(store_shrink_test, two_are_lost_at_once) {
  for (std::size_t first = 0; first < 4; ++first) {
    for (std::size_t second = first + 1; second < 4; ++second) {
      stores ranks = start_job(4, surviving(1));
      auto results = survive(ranks, {first, second});
      const stores next = values(results);
      ASSERT_EQ(next.size(), 2u);
      EXPECT_EQ(next[0]->previous_ranks(), next[1]->previous_ranks());
      EXPECT_EQ(next[1]->who().rank, 1);
    }
  }
}

TEST_P(store_shrink_test, again_and_again_until_one_is_left) {
  stores ranks = start_job(4, surviving(1));
  for (int left = 3; left > 0; --left) {
    const std::size_t victim = left % 2 == 0 ? 0 : 1;
    auto results = survive(ranks, {victim});
    ranks = values(results);
    ASSERT_EQ(ranks.size(), static_cast<std::size_t>(left));
    EXPECT_EQ(ranks[0]->who().job, "job+" + std::to_string(4 - left));
  }
  EXPECT_FALSE(finish(ranks[0]->set("key", "value")).failure);
}

TEST_P(store_shrink_test, losses_of_the_new_job_are_reported_with_new_ranks) {
  stores ranks = start_job(4, surviving(1));
  auto results = survive(ranks, {1});
  stores next = values(results);
  results.clear();
  loss_record noticed;
  listen(*next[0], noticed);
  next[2].reset();
  run_until([&] { return noticed.times > 0; });
  EXPECT_TRUE(is(noticed.reason, errc::peer_lost, {"rank 2 is gone"}));
}

TEST_P(store_shrink_test, too_few_are_left) {
  stores ranks = start_job(3, surviving(3));
  auto results = survive(ranks, {2});
  ASSERT_EQ(results.size(), 2u);
  for (const join_result& one : results) {
    EXPECT_TRUE(is(one.failure, errc::rank_missing,
                   {"2 of 3 ranks are left, and the job needs 3", "TANDEM_MIN_SURVIVORS"}));
  }
}

TEST_P(store_shrink_test, has_to_be_prepared) {
  stores ranks = start_job(2, within(timeout));
  auto results = survive(ranks, {1});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_TRUE(is(results[0].failure, errc::bad_option,
                 {"rank 0", "cannot go on after a loss", "TANDEM_MIN_SURVIVORS"}));
}

TEST_P(store_shrink_test, a_second_call_is_refused) {
  stores ranks = start_job(2, surviving(1));
  auto results = survive(ranks, {1});
  const stores next = values(results);
  const join_result again = finish(shrink(ranks[0]));
  EXPECT_TRUE(is(again.failure, errc::bad_input, {"left or shrunk before"}));
}

TEST_P(store_shrink_test, all_ranks_need_the_option) {
  std::vector<join_result*> each{&join(launch_as(0, 2), surviving(1, milliseconds(4'000))),
                                 &join(launch_as(1, 2), milliseconds(4'000))};
  run_until([&] { return all_done(each); });
  EXPECT_TRUE(is(each[0]->failure, errc::bad_option,
                 {"not every rank has TANDEM_MIN_SURVIVORS", "meeting point/1"}));
}

TEST_P(store_shrink_test, a_rank_that_was_given_up_is_not_among_them) {
  stores ranks = start_job(3, surviving(1));
  tandem::error_context silent;
  silent.peer = 1;
  silent.detail = "rank 1 is silent";
  ranks[2]->report(error(make_error_code(errc::peer_lost), silent));
  std::vector<loss_record> each(3);
  for (std::size_t rank = 0; rank < 3; ++rank) listen(*ranks[rank], each[rank]);
  run_until([&] { return each[0].times + each[1].times + each[2].times == 3; });
  auto results = survive(ranks, {});
  ASSERT_EQ(results.size(), 3u);
  EXPECT_TRUE(is(results[1].failure, errc::peer_lost, {"given up this rank"}));
  for (const std::size_t rank : {0u, 2u}) {
    ASSERT_TRUE(results[rank].value) << results[rank].failure->what();
    EXPECT_EQ((*results[rank].value)->previous_ranks(), (std::vector<int>{0, 2}));
  }
}

TEST_P(store_shrink_test, a_failure_without_a_loss_leaves_all) {
  stores ranks = start_job(3, surviving(1));
  ranks[1]->report(error(errc::timed_out, "a call took too long", "look why"));
  loss_record noticed;
  listen(*ranks[2], noticed);
  run_until([&] { return noticed.times > 0; });
  auto results = survive(ranks, {});
  const stores next = values(results);
  ASSERT_EQ(next.size(), 3u);
  EXPECT_EQ(next[0]->previous_ranks(), (std::vector<int>{0, 1, 2}));
}

/// The others wait for it, since its process is there, as long as for any rank at the start.
TEST_P(store_shrink_test, a_rank_that_does_not_call_is_left_out_by_a_majority) {
  stores ranks = start_job(4, surviving(1, milliseconds(4'000)));
  const std::shared_ptr<tandem::store> busy = ranks[3];
  ranks[3].reset();
  auto results = survive(ranks, {0});
  const stores next = values(results);
  ASSERT_EQ(next.size(), 2u);
  EXPECT_EQ(next[0]->previous_ranks(), (std::vector<int>{1, 2}));
  expect_log("gave up rank 3 and go on without it");
  const join_result late = finish(shrink(busy));
  EXPECT_TRUE(is(late.failure, errc::peer_lost, {"gave up rank 3", "restart the job"}));
}

TEST_P(store_shrink_test, half_of_those_that_may_be_alive_do_not_go_on) {
  stores ranks = start_job(3, surviving(1, milliseconds(4'000)));
  const std::shared_ptr<tandem::store> busy = ranks[2];
  ranks[2].reset();
  auto results = survive(ranks, {0});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_TRUE(is(results[0].failure, errc::rank_missing, {"rank 2 did not join"}));
}

TEST_P(store_shrink_test, loss_of_the_rank_that_serves_while_they_meet) {
  stores ranks = start_job(4, surviving(1));
  const std::shared_ptr<tandem::store> late = std::exchange(ranks[3], nullptr);
  ranks[0].reset();
  std::deque<join_result> results(2);
  // Rank 1 serves and waits for rank 3, until it is lost.
  asio::cancellation_signal lost;
  asio::co_spawn(io_, shrink(ranks[1]),
                 asio::bind_cancellation_slot(
                     lost.slot(), [&](std::exception_ptr e, auto) { results[0].end(e); }));
  start(io_, shrink(ranks[2]), results[1]);
  const auto since = std::chrono::steady_clock::now();
  run_until([&] { return std::chrono::steady_clock::now() - since > milliseconds(3'000); });
  lost.emit(asio::cancellation_type::terminal);
  run_until([&] { return results[0].done && results[1].done; });
  EXPECT_TRUE(is(results[1].failure, errc::peer_lost,
                 {"rank 1, the lowest one left, was lost while the others met there"}));
}

INSTANTIATE_TEST_SUITE_P(with, store_shrink_test, testing::Bool(),
                         [](const auto& one) { return one.param ? "secret" : "no_secret"; });

}  // namespace
