// Every call of islands, on devices with a library in memory, compared with a serial computation.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>

#include "collectives/islands/rig.hpp"
#include "collectives/nan_cases.hpp"

namespace tandem {
namespace {

using test::island_call;
using test::island_rig;

/// Colours by rank.
using shape = std::vector<int>;

class Islands : public testing::TestWithParam<shape> {
 protected:
  void expect_right(const island_call& c) {
    SCOPED_TRACE(text(c));
    ASSERT_EQ(rig.check(c), "");
    ASSERT_FALSE(HasFailure());
  }
  island_rig rig{GetParam()};
};

constexpr std::size_t counts[] = {0, 1, 37, 5001};

TEST_P(Islands, MoveEveryBlockWhereItBelongs) {
  for (const std::size_t count : counts) {
    for (const bool in_place : {false, true}) {
      expect_right(island_call(collective::all_gather, count, data_type::uint8, reduce_op::sum, 0,
                               in_place));
    }
    expect_right(island_call(collective::all_to_all, count));
    for (int root = 0; root < rig.size(); ++root) {
      expect_right(
          island_call(collective::broadcast, count, data_type::uint8, reduce_op::sum, root));
    }
  }
}

TEST_P(Islands, CombineEveryTypeByEveryOperation) {
  // Supported by the library, and not supported: 16-bit integers, averages, bit operations.
  constexpr data_type types[] = {data_type::float32,  data_type::float64,     data_type::int32,
                                 data_type::uint64,   data_type::int8,        data_type::float16,
                                 data_type::bfloat16, data_type::float8_e5m2, data_type::int16};
  constexpr reduce_op ops[] = {
      reduce_op::sum,     reduce_op::product, reduce_op::minimum,          reduce_op::maximum,
      reduce_op::average, reduce_op::bxor,    reduce_op::premultiplied_sum};
  int root = 0;
  for (const data_type type : types) {
    for (const reduce_op op : ops) {
      if (!is_defined(type, op)) continue;
      root = (root + 1) % rig.size();
      for (const collective what :
           {collective::all_reduce, collective::reduce, collective::reduce_scatter}) {
        expect_right(island_call(what, 37, type, op, root, root % 2 == 1));
      }
    }
  }
}

TEST_P(Islands, CombineAnyNumberOfElementsForAnyRoot) {
  for (const reduce_op op : {reduce_op::sum, reduce_op::premultiplied_sum}) {
    for (const std::size_t count : counts) {
      for (const bool in_place : {false, true}) {
        for (int root = 0; root < rig.size(); ++root) {
          expect_right(
              island_call(collective::reduce, count, data_type::float32, op, root, in_place));
        }
        expect_right(
            island_call(collective::reduce_scatter, count, data_type::int32, op, 0, in_place));
      }
      expect_right(island_call(collective::all_reduce, count, data_type::bfloat16, op));
    }
  }
}

TEST_P(Islands, PropagateNanOfAnyRank) {
  int root = 0;
  for (const data_type type : test::floating_types) {
    for (const reduce_op op : test::extremes) {
      root = (root + 1) % rig.size();
      for (const collective what :
           {collective::all_reduce, collective::reduce, collective::reduce_scatter}) {
        expect_right(with_nans(island_call(what, 1009, type, op, root, root % 2 == 1)));
      }
    }
  }
}

TEST_P(Islands, DoNotLeakResourcesOfCalls) {
  expect_right(island_call(collective::reduce_scatter, 100, data_type::float32,
                           reduce_op::premultiplied_sum));
  std::size_t alone = 0;
  for (const std::vector<int>& members : rig.of(0).backend().islands) alone += members.size() == 1;
  const std::size_t levels = rig.of(0).backend().islands.size() == 1 ? 1 : 2;
  EXPECT_EQ(rig.library.open(), levels * (static_cast<std::size_t>(rig.size()) - alone));
}

std::string name_of_shape(const testing::TestParamInfo<shape>& of) {
  std::string text = "Colours";
  for (const int colour : of.param) text += std::to_string(colour);
  return text;
}

INSTANTIATE_TEST_SUITE_P(, Islands,
                         testing::Values(shape{0}, shape{0, 0, 0}, shape{0, 1}, shape{0, 0, 1, 1},
                                         shape{0, 1, 1, 0}, shape{0, 0, 0, 1}, shape{0, 1, 0},
                                         shape{0, 1, 0, 1, 0}, shape{0, 1, 2, 0, 2}),
                         name_of_shape);

std::size_t library_calls(const island_rig& rig) {
  std::size_t sum = 0;
  for (const char* const function : {"ncclReduce", "ncclReduceScatter", "ncclAllGather",
                                     "ncclBroadcast", "ncclSend", "ncclRecv"}) {
    sum += rig.library.calls(function);
  }
  return sum;
}

/// A sum on memory of the device, by an algorithm of the caller's choice.
asio::awaitable<void> sum_around_ring(communicator& in, accelerator& device) {
  const buffer memory(4096, device.kind(), device.device());
  const mutable_view data = memory.view();
  co_await all_reduce(in, data, data_type::int32, reduce_op::sum, algorithm::ring);
}

TEST(IslandLevels, AreUsedWhereTheLibrarySupportsTheCall) {
  island_rig rig({0, 0, 1, 1});
  const auto asked = [&rig](const island_call& c) {
    const std::size_t before = library_calls(rig);
    EXPECT_EQ(rig.check(c), "");
    return library_calls(rig) - before;
  };
  for (const collective what :
       {collective::all_reduce, collective::broadcast, collective::reduce, collective::all_gather,
        collective::reduce_scatter, collective::all_to_all}) {
    EXPECT_GT(asked(island_call(what, 64, data_type::float32)), 0U) << name(what);
  }
  for (const collective what :
       {collective::all_reduce, collective::reduce, collective::reduce_scatter}) {
    EXPECT_EQ(asked(island_call(what, 64, data_type::uint16)), 0U);
    EXPECT_EQ(asked(island_call(what, 64, data_type::float32, reduce_op::average)), 0U);
    EXPECT_EQ(asked(island_call(what, 64, data_type::int32, reduce_op::bor)), 0U);
    for (const reduce_op op : test::extremes) {
      EXPECT_GT(asked(island_call(what, 64, data_type::int32, op)), 0U);
      for (const data_type type : test::floating_types) {
        EXPECT_EQ(asked(island_call(what, 64, type, op)), 0U) << name(op) << " of " << name(type);
      }
    }
  }
}

/// Calls that use channels in a communicator with islands.
TEST(IslandChannels, CarryHostMemoryAndChosenAlgorithms) {
  island_rig rig({0, 0, 1, 1});
  for (const collective what :
       {collective::all_reduce, collective::broadcast, collective::reduce, collective::all_gather,
        collective::reduce_scatter, collective::all_to_all}) {
    const island_call c(what, 5001, data_type::float32, reduce_op::sum, 1);
    const std::size_t before = library_calls(rig);
    EXPECT_EQ(rig.jobs->run([&](int r) { return test::check(rig.of(r), nullptr, c); }), "")
        << text(c);
    EXPECT_EQ(library_calls(rig), before) << text(c);
  }
  const std::size_t before = library_calls(rig);
  EXPECT_EQ(rig.jobs->run([&](int r) { return sum_around_ring(rig.of(r), rig.device(r)); }), "");
  EXPECT_EQ(library_calls(rig), before);
}

TEST(IslandCommunicator, DescribesItsBackEnd) {
  const auto described = [](std::vector<int> colours) {
    island_rig rig(std::move(colours));
    for (int r = 0; r < rig.size(); ++r) EXPECT_EQ(rig.of(r).rank(), r);
    EXPECT_EQ(rig.jobs->world(0).backend().how,
              rig.size() == 1 ? group_backend::alone : group_backend::channels);
    return rig.of(rig.size() - 1).backend();
  };
  const backend_description one = described({0, 0, 0}), two = described({0, 0, 1});
  EXPECT_EQ(one.how, group_backend::library);
  EXPECT_EQ(one.text, "1 island: cuda (ranks 0, 1, 2) by NCCL 2.28.3");
  EXPECT_EQ(two.how, group_backend::levels);
  EXPECT_EQ(two.islands, (std::vector<std::vector<int>>{{0, 1}, {2}}));
  EXPECT_EQ(described({0, 1}).how, group_backend::levels);
  EXPECT_EQ(described({0}).how, group_backend::alone);
}

TEST(IslandCommunicator, OutlivesTheOneItWasMadeFrom) {
  island_rig rig({0, 0, 1});
  for (auto& each : rig.jobs->worlds) each.reset();
  EXPECT_EQ(rig.check(island_call(collective::all_reduce, 37, data_type::float32)), "");
}

TEST(OneIsland, MapsEachCallToOneLibraryCall) {
  island_rig rig({0, 0, 0});
  constexpr const char* functions[] = {"ncclAllReduce",     "ncclBroadcast", "ncclReduce",
                                       "ncclReduceScatter", "ncclAllGather", "ncclSend",
                                       "ncclRecv"};
  const auto made = [&](collective what, reduce_op op) {
    std::map<std::string, std::size_t> before, calls;
    for (const char* const each : functions) before[each] = rig.library.calls(each);
    EXPECT_EQ(rig.check(island_call(what, 5001, data_type::float32, op, 1)), "") << name(what);
    for (const char* const each : functions) {
      if (const std::size_t more = rig.library.calls(each) - before[each]) calls[each] = more;
    }
    return calls;
  };
  using counts_of_calls = std::map<std::string, std::size_t>;
  const std::pair<collective, const char*> combining[] = {
      {collective::all_reduce, "ncclAllReduce"},
      {collective::reduce, "ncclReduce"},
      {collective::reduce_scatter, "ncclReduceScatter"}};
  for (const auto& [what, function] : combining) {
    for (const reduce_op op : {reduce_op::sum, reduce_op::premultiplied_sum}) {
      EXPECT_EQ(made(what, op), (counts_of_calls{{function, 3}})) << name(what);
    }
  }
  EXPECT_EQ(made(collective::broadcast, reduce_op::sum), (counts_of_calls{{"ncclBroadcast", 3}}));
  EXPECT_EQ(made(collective::all_gather, reduce_op::sum), (counts_of_calls{{"ncclAllGather", 3}}));
  EXPECT_EQ(made(collective::all_to_all, reduce_op::sum),
            (counts_of_calls{{"ncclSend", 6}, {"ncclRecv", 6}}));
}

/// NVIDIA's ranks 0 and 1 use the library; AMD's rank 2 is an island of its own.
TEST(IslandVendors, TakePartInEveryCall) {
  island_rig rig({0, 0, 0}, 2);
  EXPECT_EQ(rig.of(0).backend().text, "2 islands: cuda (ranks 0, 1) by NCCL 2.28.3, hip (rank 2)");
  for (const collective what :
       {collective::all_reduce, collective::broadcast, collective::reduce, collective::all_gather,
        collective::reduce_scatter, collective::all_to_all}) {
    for (int root = 0; root < 3; ++root) {
      for (const reduce_op op : {reduce_op::sum, reduce_op::premultiplied_sum}) {
        const island_call c(what, 5001, data_type::float32, op, root);
        EXPECT_EQ(rig.check(c), "") << text(c);
      }
    }
  }
}

TEST(IslandSlices, OfALongAllReduceAreAllCombined) {
  island_rig rig({0, 0, 1, 1});
  const island_call c(collective::all_reduce, 2'300'003, data_type::float64);
  EXPECT_EQ(rig.check(c), "");
  EXPECT_GE(rig.library.calls("ncclReduce") + rig.library.calls("ncclReduceScatter"), 4U * 2);
}

}  // namespace
}  // namespace tandem
