// Communicators that end, or are moved from, while calls on them are in progress or have not begun.
#include <gtest/gtest.h>

#include <functional>
#include <tandem/async.hpp>
#include <tandem/collectives.hpp>
#include <tandem/pipeline.hpp>

#include "integer_stage.hpp"
#include "job.hpp"

namespace tandem::test {
namespace {

using call_on = std::function<asio::awaitable<void>(communicator&)>;

asio::awaitable<void> as_void(asio::awaitable<std::size_t> of) {
  co_await std::move(of);
}

asio::awaitable<void> as_void_of(asio::awaitable<received_message> of) {
  co_await std::move(of);
}

struct one_call {
  const char* name;
  call_on make;
  bool is_collective;
};

std::ostream& operator<<(std::ostream& out, const one_call& which) {
  return out << which.name;
}

std::vector<std::int64_t>& memory() {
  static std::vector<std::int64_t> data(4096);
  return data;
}

const one_call calls[] = {
    {"send", [](communicator& on) { return on.send(1, memory()); }, false},
    {"recv", [](communicator& on) { return as_void(on.recv(1, memory())); }, false},
    {"sendrecv",
     [](communicator& on) {
       const mutable_view all(memory());
       return as_void(on.sendrecv(1, all.part(0, 8), 1, all.part(8, 8)));
     },
     false},
    {"probe", [](communicator& on) { return as_void(on.probe(1)); }, false},
    {"recv_any", [](communicator& on) { return as_void_of(on.recv_any(memory())); }, false},
    {"barrier", [](communicator& on) { return barrier(on); }, true},
    {"broadcast", [](communicator& on) { return broadcast(on, memory(), 1); }, true},
    {"all_reduce",
     [](communicator& on) {
       return all_reduce(on, memory(), data_type::int64, reduce_op::sum, algorithm::ring);
     },
     true},
    {"all_to_all",
     [](communicator& on) {
       static std::vector<std::int64_t> into(4096);
       return all_to_all(on, memory(), into);
     },
     true},
};

class Lifetime : public testing::TestWithParam<one_call> {};

TEST_P(Lifetime, DestroyedDuringACall) {
  job ranks(2, small_pieces());
  ranks.start([&](int r) { return r == 0 ? GetParam().make(ranks.world(0)) : nothing(); });
  ASSERT_TRUE(ranks.finish(1));
  ranks.context.poll();
  ranks.worlds[0].reset();
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(0), errc::channel_closed) << ranks.text(0);
  EXPECT_NE(ranks.text(0).find("communicator was destroyed"), std::string::npos) << ranks.text(0);
}

TEST_P(Lifetime, DestroyedBeforeTheCallHasBegun) {
  job ranks(2, small_pieces());
  ranks.start([&](int r) { return r == 0 ? GetParam().make(ranks.world(0)) : nothing(); });
  ranks.worlds[0].reset();
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(0), errc::channel_closed) << ranks.text(0);
}

TEST_P(Lifetime, AssignedToDuringACall) {
  job ranks(2, small_pieces());
  ranks.start([&](int r) { return r == 0 ? GetParam().make(ranks.world(0)) : nothing(); });
  ASSERT_TRUE(ranks.finish(1));
  ranks.context.poll();
  ranks.world(0) = communicator(*ranks.fabrics[0], small_pieces());
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(0), errc::channel_closed) << ranks.text(0);
}

TEST_P(Lifetime, AMessageEndsAloneAndACollectiveEndsTheJob) {
  job ranks(2, small_pieces());
  ranks.start([&](int r) { return r == 0 ? GetParam().make(ranks.world(0)) : nothing(); });
  ASSERT_TRUE(ranks.finish(1));
  ranks.context.poll();
  ranks.worlds[0] = std::make_unique<communicator>(*ranks.fabrics[0], small_pieces());
  ASSERT_TRUE(ranks.finish());
  const std::string later = ranks.run([&](int r) { return barrier(ranks.world(r)); });
  EXPECT_EQ(later.empty(), !GetParam().is_collective) << later;
}

TEST_P(Lifetime, TheFabricDestroyedDuringACall) {
  job ranks(2, small_pieces());
  ranks.start([&](int r) { return r == 0 ? GetParam().make(ranks.world(0)) : nothing(); });
  ASSERT_TRUE(ranks.finish(1));
  ranks.context.poll();
  ranks.fabrics[0].reset();  // without `close`, which counts as a loss of this rank
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(0), errc::peer_lost) << ranks.text(0);
  ranks.start([&](int r) { return r == 0 ? barrier(ranks.world(0)) : nothing(); });
  ASSERT_TRUE(ranks.finish());
  EXPECT_TRUE(ranks.code(0));
  ranks.worlds[0].reset();
}

TEST_P(Lifetime, MovedDuringACall) {
  job ranks(2, small_pieces());
  ranks.start([&](int r) { return r == 0 ? GetParam().make(ranks.world(0)) : nothing(); });
  ASSERT_TRUE(ranks.finish(1));
  communicator moved(std::move(ranks.world(0)));
  EXPECT_EQ(moved.rank(), 0);
  ranks.context.run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ranks.running, 1) << ranks.text(0);  // the call goes on
  ranks.fabrics[0]->close();
  ASSERT_TRUE(ranks.finish());
}

TEST_P(Lifetime, ACallOnOneThatWasMovedFromThrows) {
  job ranks(2, small_pieces());
  const communicator moved(std::move(ranks.world(0)));
  try {
    const auto made = GetParam().make(ranks.world(0));
    FAIL() << "it was accepted";
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::bad_input) << refused.what();
  }
  EXPECT_THROW(ranks.world(0).rank(), error);
  EXPECT_THROW(ranks.world(0).size(), error);
  EXPECT_THROW(ranks.world(0).agreed(), error);
}

INSTANTIATE_TEST_SUITE_P(Of, Lifetime, testing::ValuesIn(calls),
                         [](const auto& of) { return std::string(of.param.name); });

TEST(Lifetime, DestroyedDuringSplit) {
  job ranks(2, small_pieces());
  const auto split = [](communicator& on) -> asio::awaitable<void> { co_await on.split(0); };
  ranks.start([&](int r) { return r == 0 ? split(ranks.world(0)) : nothing(); });
  ASSERT_TRUE(ranks.finish(1));
  ranks.context.poll();
  ranks.worlds[0].reset();
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(0), errc::channel_closed) << ranks.text(0);
}

TEST(Lifetime, DestroyedWithCallsQueued) {
  job ranks(2, small_pieces());
  std::vector<std::vector<std::int64_t>> data(80, std::vector<std::int64_t>(100));
  int ended = 0;
  for (auto& each : data) {
    asio::co_spawn(
        ranks.context, all_reduce(ranks.world(0), each, data_type::int64, reduce_op::sum),
        [&ended](std::exception_ptr failure) {
          EXPECT_NE(describe(failure).find("communicator was destroyed"), std::string::npos)
              << describe(failure);
          ++ended;
        });
  }
  ranks.context.poll();
  ranks.context.restart();
  EXPECT_EQ(ended, 0);
  ranks.worlds[0].reset();
  ranks.context.run_for(std::chrono::seconds(5));
  EXPECT_EQ(ended, 80);
}

}  // namespace
}  // namespace tandem::test
