// Collectives on the memory of devices: every one gives what it gives on the host, bit by bit,
// which other tests compare with a reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tandem/collectives/collectives.hpp>
#include <tandem/join.hpp>

#include "collectives/brought.hpp"
#include "collectives/device_job.hpp"
#include "collectives/hosts.hpp"
#include "support/rdma/on_loopback.hpp"

namespace tandem {
namespace {

using test::device_job;
using test::device_of_rank;
using test::job;

struct device_call {
  collective what;
  algorithm how;
  data_type type = data_type::float32;
  reduce_op op = reduce_op::sum;
  std::size_t count = 0;  ///< elements of a rank's block
  int root = 0;
  bool in_place = false;
  bool listed = false;  ///< blocks of unequal length, where the collective knows them
};

std::string text(const device_call& c, int ranks) {
  return fmt::format("{} by {}, {} of {} {}, {} ranks, root {}{}{}", name(c.what), name(c.how),
                     name(c.op), c.count, name(c.type), ranks, c.root,
                     c.in_place ? ", in place" : "", c.listed ? ", listed" : "");
}

bool combines(collective what) {
  return what == collective::reduce || what == collective::all_reduce ||
         what == collective::reduce_scatter;
}

/// What the ranks of a job bring to one call, and what comes of it.
class data_of_call {
 public:
  data_of_call(const device_call& c, int ranks) : c_(c), ranks_(ranks) {
    const auto n = static_cast<std::size_t>(ranks);
    for (std::size_t r = 0; r < n; ++r) {
      const std::size_t elements = !c.listed ? c.count : r % 3 == 1 ? 0 : c.count / (r + 1);
      each_.push_back(elements * bytes_of(c.type));
      total_ += each_.back();
    }
    for (int r = 0; r < ranks; ++r) {
      const std::size_t own = each_[static_cast<std::size_t>(r)];
      from_.push_back(made(has_all(true) ? total_ : own, r));
      into_.emplace_back(has_all(false) ? total_ : own, std::byte{0xab});
      if (!c.in_place || c.what != collective::all_gather) continue;
      std::ranges::copy(from_.back(), into_.back().begin() + offset(r));
    }
  }

  /// `there` says where a rank has a view.
  template <class There>
  asio::awaitable<void> call(communicator& among, There there) {
    const int r = among.rank();
    const auto i = static_cast<std::size_t>(r);
    const auto at = static_cast<std::size_t>(offset(r));
    const mutable_view own = there(r, mutable_view(from_[i]));
    const mutable_view other = there(r, mutable_view(into_[i]));
    const reduction what(c_.op, test::factor_of(r));
    switch (c_.what) {
      case collective::broadcast:
        return broadcast(among, own, c_.root, c_.how);
      case collective::all_reduce:
        return all_reduce(among, own, c_.in_place ? own : other, c_.type, what, c_.how);
      case collective::reduce:
        return reduce(among, own, c_.in_place ? own : other, c_.type, what, c_.root, c_.how);
      case collective::all_gather: {
        const const_view mine = c_.in_place ? other.part(at, each_[i]) : own;
        if (c_.listed) return all_gather_v(among, mine, other, each_, c_.how);
        return all_gather(among, mine, other, c_.how);
      }
      case collective::reduce_scatter: {
        const mutable_view mine = c_.in_place ? own.part(at, each_[i]) : other;
        if (c_.listed) return reduce_scatter_v(among, own, mine, each_, c_.type, what, c_.how);
        return reduce_scatter(among, own, mine, c_.type, what, c_.how);
      }
      case collective::gather:
        if (c_.listed) return gather_v(among, own, other, each_, c_.root, c_.how);
        return gather(among, own, other, c_.root, c_.how);
      case collective::scatter:
        if (c_.listed) return scatter_v(among, own, other, each_, c_.root, c_.how);
        return scatter(among, own, other, c_.root, c_.how);
      default:
        return all_to_all(among, own, other, c_.how);
    }
  }

  /// Everything, also what was only to be read.
  bool operator==(const data_of_call& other) const {
    return from_ == other.from_ && into_ == other.into_;
  }

 private:
  /// The one of both views that has all blocks.
  bool has_all(bool from) const {
    if (c_.what == collective::all_to_all) return true;
    if (c_.what == collective::all_gather || c_.what == collective::gather) return !from;
    return from && (c_.what == collective::reduce_scatter || c_.what == collective::scatter);
  }
  std::vector<std::byte> made(std::size_t bytes, int rank) const {
    return test::packed(c_.type, test::elements_of(c_.type, rank, bytes / bytes_of(c_.type)));
  }
  std::ptrdiff_t offset(int rank) const {
    std::size_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += each_[static_cast<std::size_t>(r)];
    return static_cast<std::ptrdiff_t>(sum);
  }

  const device_call c_;
  const int ranks_;
  std::vector<std::size_t> each_;
  std::size_t total_ = 0;
  std::vector<std::vector<std::byte>> from_, into_;
};

/// The same call by both jobs.
void expect_same(job& on_host, device_job& on_devices, const device_call& c) {
  SCOPED_TRACE(text(c, on_host.size()));
  data_of_call expected(c, on_host.size());
  data_of_call got(c, on_host.size());
  ASSERT_EQ(on_host.run([&](int r) {
    return expected.call(on_host.world(r), [](int, mutable_view v) { return v; });
  }),
            "");
  ASSERT_EQ(on_devices.run([&](int r) {
    return got.call(on_devices.world(r),
                    [&](int rank, mutable_view v) { return on_devices.there(rank, v); });
  }),
            "");
  on_devices.bring_back();
  ASSERT_TRUE(got == expected);
}

/// By each algorithm, in place and not, equal blocks and not.
void expect_all(job& on_host, device_job& on_devices, const device_call& like, bool two_level) {
  for (const algorithm how : algorithms_of(like.what)) {
    if ((how == algorithm::two_level) != two_level) continue;
    for (const int variant : {0, 1, 2, 3}) {
      device_call c = like;
      c.how = how;
      c.in_place = (variant & 1) != 0;
      c.listed = (variant & 2) != 0;
      const bool has_blocks = c.what != collective::broadcast && c.what != collective::all_reduce &&
                              c.what != collective::reduce && c.what != collective::all_to_all;
      const bool has_place = combines(c.what) || c.what == collective::all_gather;
      if ((c.listed && !has_blocks) || (c.in_place && !has_place)) continue;
      const bool is_rooted = c.what == collective::gather || c.what == collective::scatter;
      if (c.listed && is_rooted && how == algorithm::tree) continue;
      expect_same(on_host, on_devices, c);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

constexpr collective all_collectives[] = {collective::broadcast,      collective::all_reduce,
                                          collective::reduce,         collective::all_gather,
                                          collective::reduce_scatter, collective::gather,
                                          collective::scatter,        collective::all_to_all};

class OnDevices : public testing::TestWithParam<device_of_rank> {
 protected:
  test::devices_with_kernels devices;
};

TEST_P(OnDevices, EveryCallGivesTheBitsOfTheHost) {
  const std::size_t chunk = test::small_pieces().collective_chunk_bytes;
  for (const int n : {1, 2, 3, 5}) {
    const std::size_t longest = n == 3 ? 5 * chunk / 4 + 1 : 7;
    job on_host(n, test::small_pieces());
    device_job on_devices(n, test::small_pieces(), GetParam());
    for (const collective what : all_collectives) {
      for (const std::size_t count : {std::size_t{131}, longest}) {
        device_call c{what, algorithm::automatic};
        c.count = count;
        c.root = n - 1;
        expect_all(on_host, on_devices, c, false);
        if (!combines(what) || count != 131) continue;
        c.type = data_type::bfloat16;
        c.op = reduce_op::premultiplied_sum;
        expect_all(on_host, on_devices, c, false);
        c.type = data_type::int32;
        c.op = reduce_op::average;
        expect_all(on_host, on_devices, c, false);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(OnDevices, EveryTypeAndOperation) {
  job on_host(3, test::small_pieces());
  device_job on_devices(3, test::small_pieces(), GetParam());
  for (const data_type type : test::all_types) {
    for (const reduce_op op : test::all_ops) {
      if (!is_defined(type, op)) continue;
      device_call c{collective::all_reduce, algorithm::ring, type, op, 131};
      expect_same(on_host, on_devices, c);
      if (HasFatalFailure()) return;
    }
  }
  // Those that no host-side rank needed, of both devices, at the most.
  EXPECT_LE(devices.compiler.compiled().size(), std::size(test::all_types));
}

TEST_P(OnDevices, OnTwoLevels) {
  for (const test::host_names& hosts : test::layouts) {
    const int n = static_cast<int>(hosts.size());
    const std::unique_ptr<job> on_host = test::job_on(hosts);
    device_job on_devices(n, test::small_pieces(), GetParam());
    facts known;
    known.host_of_rank = hosts;
    for (const auto& world : on_devices.worlds) {
      world->internals()->adopt(plan::of(known, test::small_pieces()));
    }
    for (const collective what : {collective::all_reduce, collective::broadcast,
                                  collective::all_gather, collective::reduce_scatter}) {
      for (const std::size_t count : {std::size_t{7}, std::size_t{2500}}) {
        device_call c{what, algorithm::two_level};
        c.count = count;
        c.op = reduce_op::premultiplied_sum;
        expect_all(*on_host, on_devices, c, true);
        if (HasFatalFailure()) return;
      }
    }
  }
}

asio::awaitable<test::fabrics> over_rdma(int ranks, settings options) {
  return test::make_job(ranks, std::move(options));
}

/// NICs read and write the ranks' devices, which do not reach each other.
TEST_P(OnDevices, OverNicsThatReachThem) {
  const std::unique_ptr<test::rdma_double> nics = test::rdma_on_loopback();
  settings options = test::rdma_settings(rdma_use::on);
  options.collective_chunk_bytes = test::small_pieces().collective_chunk_bytes;
  options.eager_bytes = test::small_pieces().eager_bytes;
  options.peer_copies = options.shared_staging = false;
  const test::fabric_kind rdma{"rdma", over_rdma};
  job on_host(3, test::small_pieces());
  device_job on_devices(rdma, 3, options, GetParam());
  for (const collective what : all_collectives) {
    device_call c{what, algorithm::automatic};
    c.count = 1000;
    c.root = 2;
    expect_all(on_host, on_devices, c, false);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(on_devices.fabrics[2]->way_to(1, memory_kind::cuda, memory_kind::cuda),
            "device-direct over rails");
  EXPECT_GT(nics->seen().writes, 100U);
}

asio::awaitable<void> several(std::vector<asio::awaitable<void>> calls) {
  co_await when_all(std::move(calls));
}

TEST_P(OnDevices, SeveralAtOnceDoNotMix) {
  constexpr int n = 3;
  job on_host(n, test::small_pieces());
  device_job on_devices(n, test::small_pieces(), GetParam());
  std::vector<data_of_call> expected, got;
  for (const algorithm how : {algorithm::ring, algorithm::recursive_doubling, algorithm::ring}) {
    const device_call c{collective::all_reduce, how, data_type::float32, reduce_op::average, 1000};
    expected.emplace_back(c, n);
    got.emplace_back(c, n);
  }
  const auto all_of = [](std::vector<data_of_call>& data, communicator& world, auto there) {
    std::vector<asio::awaitable<void>> calls;
    for (data_of_call& each : data) calls.push_back(each.call(world, there));
    return several(std::move(calls));
  };
  ASSERT_EQ(on_host.run([&](int r) {
    return all_of(expected, on_host.world(r), [](int, mutable_view v) { return v; });
  }),
            "");
  ASSERT_EQ(on_devices.run([&](int r) {
    return all_of(got, on_devices.world(r),
                  [&](int rank, mutable_view v) { return on_devices.there(rank, v); });
  }),
            "");
  on_devices.bring_back();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i] == expected[i]);
}

INSTANTIATE_TEST_SUITE_P(Of, OnDevices,
                         testing::Values(test::every_other_device, test::device_or_host),
                         [](const auto& of) { return of.index == 0 ? "AllRanks" : "SomeRanks"; });

class DeviceFailure : public testing::Test {
 protected:
  /// All ranks call it; what they bring lives on.
  void start(device_job& ranks, const device_call& c) {
    data = std::make_unique<data_of_call>(c, ranks.size());
    ranks.start([this, &ranks](int r) {
      return data->call(ranks.world(r),
                        [&ranks](int rank, mutable_view v) { return ranks.there(rank, v); });
    });
  }
  static error_code code_of(device_job& ranks, asio::awaitable<void> call) {
    std::vector<asio::awaitable<void>> one;
    one.push_back(std::move(call));
    ranks.start([&](int r) { return r == 0 ? std::move(one[0]) : test::nothing(); });
    return ranks.finish() ? ranks.code(0) : error_code(errc::timed_out);
  }
  test::devices_with_kernels devices;
  std::unique_ptr<data_of_call> data;
};

constexpr device_call long_sum{collective::all_reduce, algorithm::ring, data_type::float32,
                               reduce_op::average, 3000};

/// The double fails the test where memory goes while work on it is queued.
TEST_F(DeviceFailure, ALossAfterAnyStepHandsBackWhatNobodyTouches) {
  for (const collective what : {collective::all_reduce, collective::reduce_scatter}) {
    for (const algorithm how : algorithms_of(what)) {
      if (how == algorithm::two_level) continue;
      bool over = false;
      for (int steps = 0; !over; steps += 1 + steps / 4) {
        SCOPED_TRACE(fmt::format("{} by {}, after {} steps", name(what), name(how), steps));
        device_job ranks(3, test::small_pieces(), test::every_other_device);
        device_call c = long_sum;
        c.what = what;
        c.how = how;
        start(ranks, c);
        for (int i = 0; i < steps && !over; ++i) {
          ranks.context.run_one_for(std::chrono::seconds(10));
          over = ranks.running == 0;
        }
        ranks.fabrics[2]->fail(error(
            errc::peer_lost, {.peer = 2, .rail = {}, .phase = {}, .detail = "gone", .advice = {}}));
        ASSERT_TRUE(ranks.finish());
        ranks.bring_back();
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST_F(DeviceFailure, AJobThatIsDestroyedAfterAnyStepLeavesNothingQueued) {
  bool over = false;
  for (int steps = 0; !over; steps += 1 + steps / 4) {
    SCOPED_TRACE(steps);
    auto ranks = std::make_unique<device_job>(3, test::small_pieces(), test::every_other_device);
    start(*ranks, long_sum);
    for (int i = 0; i < steps && !over; ++i) {
      ranks->context.run_one_for(std::chrono::seconds(10));
      over = ranks->running == 0;
    }
    ranks.reset();
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(DeviceFailure, OfOneDeviceReachesEveryRank) {
  device_job ranks(3, test::small_pieces(), test::device_or_host);
  start(ranks, long_sum);
  devices.gpus.break_device(1, 10);
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(2), errc::device_failed) << ranks.text(2);
  for (const int r : {0, 1}) EXPECT_TRUE(ranks.code(r)) << r;
}

TEST_F(DeviceFailure, ViewsThatDoNotFitAreRefusedAndChangeNothing) {
  device_job ranks(2, test::small_pieces(), test::every_other_device);
  std::vector<float> here(64, 1), block(32);
  const mutable_view there = ranks.there(0, mutable_view(here));
  const mutable_view other = ranks.there(1, mutable_view(block));
  communicator& world = ranks.world(0);
  constexpr data_type type = data_type::float32;
  EXPECT_EQ(code_of(ranks, all_reduce(world, there.part(0, 128), block, type, reduce_op::sum)),
            errc::unsupported_memory);
  EXPECT_EQ(code_of(ranks, all_reduce(world, there.part(0, 128), other, type, reduce_op::sum)),
            errc::unsupported_memory);
  EXPECT_EQ(code_of(ranks, all_gather(world, block, there)), errc::unsupported_memory);
  EXPECT_EQ(code_of(ranks, all_to_all(world, there, here)), errc::unsupported_memory);
  mutable_view nowhere = there;
  nowhere.device = 7;
  EXPECT_EQ(code_of(ranks, broadcast(world, nowhere, 0)), errc::unsupported_memory);
  nowhere.kind = memory_kind::hip;
  EXPECT_EQ(code_of(ranks, broadcast(world, nowhere, 0)), errc::unsupported_memory);

  // No compiler of kernels: what combines is refused, what moves is not.
  devices.compiler.fail("no");
  EXPECT_EQ(code_of(ranks, all_reduce(world, there, data_type::int8, reduce_op::sum)),
            errc::device_failed);
  devices.compiler.fail("");
  start(ranks, long_sum);
  ASSERT_TRUE(ranks.finish());
  for (const int r : {0, 1}) EXPECT_FALSE(ranks.code(r)) << ranks.text(r);
}

TEST_F(DeviceFailure, AChannelThatCarriesNoSuchMemoryIsNamed) {
  job ranks(3, test::small_pieces());
  test::device_mirror mirror(0);
  std::vector<float> here(64, 1);
  const mutable_view there = mirror.there(mutable_view(here));
  ranks.start([&](int r) {
    return r == 1 ? all_reduce(ranks.world(1), there, data_type::float32, reduce_op::sum)
                  : test::nothing();
  });
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(1), errc::unsupported_memory);
  EXPECT_NE(ranks.text(1).find("rank 1 to rank 0"), std::string::npos) << ranks.text(1);
  EXPECT_NE(ranks.text(1).find("cuda"), std::string::npos) << ranks.text(1);
}

}  // namespace
}  // namespace tandem
