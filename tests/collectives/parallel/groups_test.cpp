// Parallel groups over devices and a library in memory: every call of every group compared with a
// serial computation, and the plan that the ranks have agreed on.
#include <gtest/gtest.h>

#include "collectives/parallel/pass_around.hpp"
#include "collectives/parallel/rig.hpp"
#include "communicator/group.hpp"

namespace tandem {
namespace {

using test::group_rig;
using test::island_call;
using test::rank_group;

struct shape {
  const char* name;
  std::vector<rank_group> ranks;
  const char* layout;
};

class ParallelGroups : public testing::TestWithParam<shape> {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    const parallel_layout layout = parallel_layout::parse(GetParam().layout);
    for (const auto& each : layout.dimensions()) all.push_back(each.name);
    return all;
  }
  group_rig rig{GetParam().ranks, GetParam().layout};
};

TEST_P(ParallelGroups, MatchSerialResults) {
  ASSERT_FALSE(HasFailure());
  for (const std::string& name : names()) {
    const int ranks = rig.of(0).group(name).size();
    for (const std::size_t count : {0U, 1U, 37U, 5001U}) {
      std::vector<island_call> calls;
      for (const bool in_place : {false, true}) {
        calls.emplace_back(collective::all_gather, count, data_type::uint8, reduce_op::sum, 0,
                           in_place);
        for (const collective what :
             {collective::all_reduce, collective::reduce, collective::reduce_scatter}) {
          calls.emplace_back(what, count, data_type::float32, reduce_op::sum,
                             static_cast<int>(count) % ranks, in_place);
        }
      }
      calls.emplace_back(collective::all_reduce, count, data_type::bfloat16, reduce_op::average);
      calls.emplace_back(collective::all_reduce, count, data_type::float64,
                         reduce_op::premultiplied_sum);
      calls.emplace_back(collective::all_to_all, count);
      for (int root = 0; root < ranks; ++root) {
        calls.emplace_back(collective::broadcast, count, data_type::uint8, reduce_op::sum, root);
      }
      for (const island_call& each : calls) {
        ASSERT_EQ(rig.check(name, each), "") << name << ": " << text(each);
        ASSERT_FALSE(HasFailure()) << name << ": " << text(each);
      }
    }
  }
}

TEST_P(ParallelGroups, SendAndReceiveByTheirChannels) {
  for (const std::string& name : names()) {
    if (rig.of(0).group(name).size() == 1) continue;
    EXPECT_EQ(rig.jobs->run(
                  [&](int r) { return test::pass_around(rig.of(r).group(name), rig.device(r)); }),
              "")
        << name;
  }
}

TEST_P(ParallelGroups, ReduceHostMemoryToo) {
  const island_call sum(collective::all_reduce, 37, data_type::float64);
  for (const std::string& name : names()) {
    const auto call = [&](int r) { return test::check(rig.of(r).group(name), nullptr, sum); };
    EXPECT_EQ(rig.jobs->run(call), "") << name;
  }
}

asio::awaitable<void> mean(communicator& in, accelerator* device) {
  const buffer memory = test::memory_of(device, sizeof(double));
  double value = 2.0 + in.rank();
  test::copy(device, memory.data(), &value, sizeof value);
  const mutable_view data = memory.view();
  const double weight = in.rank() == 0 ? 3 : 1;
  co_await weighted_mean(in, data, data_type::float64, weight);
  test::copy(device, &value, memory.data(), sizeof value);
  double sum = 3 * 2.0;
  for (int r = 1; r < in.size(); ++r) sum += 2.0 + r;
  EXPECT_NEAR(value, sum / (in.size() + 2), 1e-12);
}

TEST_P(ParallelGroups, ComputeWeightedMeans) {
  for (const std::string& name : names()) {
    EXPECT_EQ(rig.jobs->run([&](int r) { return mean(rig.of(r).group(name), rig.device(r)); }), "")
        << name;
  }
}

TEST_P(ParallelGroups, AreTheSameOnEveryRank) {
  for (int r = 1; r < rig.size(); ++r) EXPECT_EQ(rig.of(r).text(), rig.of(0).text());
  const parallel_layout layout = parallel_layout::parse(GetParam().layout);
  for (int r = 0; r < rig.size(); ++r) {
    for (std::size_t d = 0; d < layout.dimensions().size(); ++d) {
      const rank_groups groups = layout.groups(d);
      const std::size_t own = *groups.find(r);
      const communicator& mine = rig.of(r).group(groups.name);
      EXPECT_EQ(rig.of(r).choice(groups.name).ranks, groups.members[own]);
      EXPECT_EQ(rig.of(r).choice(groups.name).number, own);
      EXPECT_EQ(mine.internals()->member(mine.rank()), r);
      EXPECT_EQ(mine.backend().how, rig.of(r).choice(groups.name).how);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , ParallelGroups,
    testing::Values(
        shape{"TwoByTwo", {test::on_cuda(2), test::on_cuda(2, 1)}, "pipeline=2,tensor=2"},
        shape{"TwoVendors", {test::on_cuda(1), test::on_hip(1)}, "pipeline=2,data=1"},
        shape{
            "TwoByTwoByTwo", {test::on_cuda(4), test::on_cuda(4, 1)}, "pipeline=2,data=2,tensor=2"},
        shape{"LevelsInData", {test::on_cuda(3), test::on_cuda(2, 1), test::on_hip(1)}, "data=6"},
        shape{"UnequalIslands", {test::on_cuda(4), test::on_cuda(2, 1)}, "stage=3,expert=2"},
        shape{"Processors", {test::on_host(4)}, "pipeline=2,data=2"},
        shape{"SomeProcessors", {test::on_cuda(2), test::on_host(2)}, "pipeline=2,data=2"},
        shape{"OneOfEach", {test::on_cuda(3)}, "tensor=1,data=3,pipeline=1"}),
    [](const testing::TestParamInfo<shape>& of) { return std::string(of.param.name); });

TEST(ParallelPlan, NamesTheBackEndOfEachGroup) {
  group_rig rig({test::on_cuda(2), test::on_cuda(2, 1)}, "pipeline=2,tensor=2");
  EXPECT_EQ(rig.of(3).text(),
            "pipeline 0, ranks 0,2: peer copies (2 islands: cuda 0, cuda 2)\n"
            "pipeline 1, ranks 1,3: peer copies (2 islands: cuda 1, cuda 3)\n"
            "tensor 0, ranks 0-1: NCCL 2.28.3 (all on cuda, one island)\n"
            "tensor 1, ranks 2-3: NCCL 2.28.3 (all on cuda, one island)\n");
  EXPECT_EQ(rig.of(3).choice("tensor").text(),
            "tensor 1, ranks 2-3: NCCL 2.28.3 (all on cuda, one island)");
}

TEST(ParallelPlan, DescribesTransports) {
  group_rig vendors({test::on_cuda(1), test::on_hip(1)}, "pipeline=2");
  EXPECT_EQ(vendors.of(0).text(),
            "pipeline 0, ranks 0-1: shared staging (2 islands: cuda 0, hip 1)\n");
}

TEST(ParallelPlan, OfHostMemoryUsesChannels) {
  group_rig rig({test::on_host(4)}, "pipeline=2,data=2");
  EXPECT_EQ(rig.of(0).agreed()[0].text(), "pipeline 0, ranks 0,2: local (host memory)");
}

TEST(ParallelPlan, CreatesOnlyNeededLibraryCommunicators) {
  group_rig rig({test::on_cuda(2), test::on_cuda(2, 1)}, "pipeline=2,tensor=2");
  EXPECT_EQ(rig.library.open(), 4U);
  const auto calls = [&rig] {
    return rig.library.calls("ncclAllReduce") + rig.library.calls("ncclReduce") +
           rig.library.calls("ncclReduceScatter");
  };
  const island_call sum(collective::all_reduce, 37, data_type::float32);
  EXPECT_EQ(rig.check("pipeline", sum), "");
  EXPECT_EQ(calls(), 0U);
  EXPECT_EQ(rig.check("tensor", sum), "");
  EXPECT_EQ(calls(), 4U);
  EXPECT_EQ(rig.library.calls("ncclAllReduce"), 4U);
}

/// One rank's part in an additional group made by the user.
struct own_group {
  const char* name;
  int colour = 0, key = 0;
  communicator* made = nullptr;
};

asio::awaitable<void> add(parallel_groups& to, own_group& what) {
  std::string name = what.name;
  what.made = co_await to.add(std::move(name), what.colour, what.key);
}

TEST(OwnGroup, IsCreatedByColourAndKey) {
  group_rig rig({test::on_cuda(3), test::on_cuda(2, 1)}, "data=5");
  own_group all[5] = {{"ends", 7, 1}, {"ends", -1}, {"ends", 4}, {"ends", 4}, {"ends", 7}};
  ASSERT_EQ(rig.jobs->run([&](int r) { return add(rig.of(r), all[r]); }), "");
  EXPECT_EQ(all[1].made, nullptr);
  EXPECT_THROW(rig.of(1).group("ends"), error);
  ASSERT_NE(all[0].made, nullptr);
  EXPECT_EQ(&rig.of(0).group("ends"), all[0].made);
  EXPECT_EQ(rig.of(0).choice("ends").text(),
            "ends 1, ranks 4,0: peer copies (2 islands: cuda 4, cuda 0)");
  EXPECT_EQ(all[0].made->rank(), 1);
  EXPECT_EQ(rig.of(1).agreed().size(), 3U) << "including those of other processes";
  const island_call sum(collective::all_reduce, 37, data_type::int32);
  EXPECT_EQ(rig.jobs->run([&](int r) {
    return r == 1 ? test::nothing() : test::check(rig.of(r).group("ends"), rig.device(r), sum);
  }),
            "");
  EXPECT_EQ(rig.check("data", sum), "") << "the other groups still work";
}

TEST(OwnGroup, OfOneIslandUsesTheLibrary) {
  group_rig rig({test::on_cuda(3)}, "data=3");
  own_group all[3] = {{"pair", 0}, {"pair", -1}, {"pair", 0}};
  ASSERT_EQ(rig.jobs->run([&](int r) { return add(rig.of(r), all[r]); }), "");
  EXPECT_EQ(rig.of(2).choice("pair").text(),
            "pair 0, ranks 0,2: NCCL 2.28.3 (all on cuda, one island)");
}

TEST(OwnGroup, IsRefusedOnEveryRank) {
  group_rig rig({test::on_cuda(2)}, "data=2");
  own_group same[2] = {{"data"}, {"data"}}, odd[2] = {{"a b"}, {"a b"}}, other[2] = {{"x"}, {"y"}};
  for (own_group* const each : {same, odd}) {
    ASSERT_NE(rig.jobs->run([&](int r) { return add(rig.of(r), each[r]); }), "hangs");
    for (int r = 0; r < 2; ++r) EXPECT_EQ(rig.jobs->code(r), errc::bad_option) << rig.jobs->text(r);
  }
  ASSERT_NE(rig.jobs->run([&](int r) { return add(rig.of(r), other[r]); }), "hangs");
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(rig.jobs->code(r), errc::call_mismatch);
    EXPECT_NE(rig.jobs->text(r).find(R"("group x" on rank 0; "group y" on rank 1)"),
              std::string::npos)
        << rig.jobs->text(r);
  }
  const island_call sum(collective::all_reduce, 37, data_type::int32);
  EXPECT_EQ(rig.check("data", sum), "") << "nothing has changed";
}

}  // namespace
}  // namespace tandem
