// Collectives on device memory: results are bitwise those on the host, which other tests compare
// with a reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tandem/async.hpp>
#include <tandem/collectives.hpp>

#include "collectives/device_call.hpp"
#include "collectives/device_job.hpp"
#include "collectives/hosts.hpp"
#include "collectives/nan_call.hpp"
#include "doubles/rdma/on_loopback.hpp"

namespace tandem {
namespace {

using test::combines;
using test::data_of_call;
using test::device_call;
using test::device_job;
using test::device_of_rank;
using test::job;

/// The same call in both jobs.
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
  on_devices.copy_back();
  ASSERT_TRUE(got == expected);
}

/// Each algorithm, in place and out of place, with equal and unequal blocks.
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

TEST_P(OnDevices, EveryCallMatchesHostBitwise) {
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
  // At most those of both devices that no rank on the host needed.
  EXPECT_LE(devices.compiler.compiled().size(), std::size(test::all_types));
}

TEST_P(OnDevices, PropagatesNanOfAnyRank) {
  constexpr int n = 3;
  device_job on_devices(n, test::small_pieces(), GetParam());
  for (const data_type type : test::floating_types) {
    const std::size_t count = test::nan_cases(type, n).count();
    for (const reduce_op op : test::extremes) {
      for (const collective what : test::combining) {
        for (const algorithm how : algorithms_of(what)) {
          const test::nan_call c{what, how, type, op, 0, count, n - 1};
          SCOPED_TRACE(text(c, n));
          test::data_of_nan_call data(c, n);
          const auto there = [&](int rank, mutable_view v) { return on_devices.there(rank, v); };
          ASSERT_EQ(on_devices.run([&](int r) { return data.call(on_devices.world(r), there); }),
                    "");
          on_devices.copy_back();
          ASSERT_EQ(data.wrong(), "");
        }
      }
    }
  }
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

/// NICs read and write the ranks' devices, which have no peer access.
TEST_P(OnDevices, OverGpuDirectNics) {
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
  EXPECT_EQ(on_devices.fabrics[2]->path_to(1, memory_kind::cuda, memory_kind::cuda),
            "device-direct over rails");
  EXPECT_GT(nics->seen().writes, 100U);
}

asio::awaitable<void> several(std::vector<asio::awaitable<void>> calls) {
  co_await when_all(std::move(calls));
}

TEST_P(OnDevices, ConcurrentCallsDoNotInterfere) {
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
  on_devices.copy_back();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i] == expected[i]);
}

INSTANTIATE_TEST_SUITE_P(Of, OnDevices,
                         testing::Values(test::every_other_device, test::device_or_host),
                         [](const auto& of) { return of.index == 0 ? "AllRanks" : "SomeRanks"; });

}  // namespace
}  // namespace tandem
