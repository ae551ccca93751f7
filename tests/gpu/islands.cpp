// Islands on real GPUs, by the vendor's own library: every call against what one processor makes of
// the same data. Each rank is this program again. Without GPUs, or with too few for a shape, a test
// says so and is skipped.

#include <gtest/gtest.h>

#include <algorithm>
#include <tandem/channels/devices.hpp>
#include <tandem/channels/shm.hpp>
#include <tandem/collectives/agree.hpp>
#include <tandem/collectives/collectives.hpp>
#include <tandem/detail/nccl.hpp>
#include <tandem/run.hpp>
#include <tandem/store.hpp>

#include "collectives/islands/island_call.hpp"
#include "gpu/rank_process.hpp"
#include "support/free_port.hpp"

namespace tandem::test {
namespace {

namespace asio = boost::asio;
using asio::awaitable;

constexpr collective combining[] = {collective::all_reduce, collective::reduce,
                                    collective::reduce_scatter};

std::vector<island_call> all_calls(int ranks) {
  std::vector<island_call> all;
  for (const std::size_t count : {0U, 1U, 37U, 5001U, (1U << 20) + 3}) {
    for (const bool in_place : {false, true}) {
      all.emplace_back(collective::all_gather, count, data_type::uint8, reduce_op::sum, 0,
                       in_place);
      for (const collective what : combining) {
        const int root = static_cast<int>(count) % ranks;
        all.emplace_back(what, count, data_type::float32, reduce_op::sum, root, in_place);
      }
    }
    all.emplace_back(collective::all_to_all, count);
    for (int root = 0; root < ranks; ++root) {
      all.emplace_back(collective::broadcast, count, data_type::uint8, reduce_op::sum, root);
      all.emplace_back(collective::reduce, count, data_type::int32, reduce_op::maximum, root);
    }
  }
  for (const data_type type : {data_type::bfloat16, data_type::float64, data_type::int8}) {
    for (const reduce_op op : {reduce_op::product, reduce_op::minimum, reduce_op::average,
                               reduce_op::premultiplied_sum}) {
      for (const collective what : combining) all.emplace_back(what, 4099, type, op, ranks - 1);
    }
  }
  return all;
}

/// By place in its island, so that no two ranks of one share a GPU; those of two may.
int device_of(const std::string& colours, int rank) {
  const auto own = colours.begin() + rank;
  return static_cast<int>(std::count(colours.begin(), own, *own));
}

int devices_for(const std::string& colours) {
  int most = 0;
  for (int r = 0; r < static_cast<int>(colours.size()); ++r) {
    most = std::max(most, 1 + device_of(colours, r));
  }
  return most;
}

awaitable<void> play(std::string colours, int me, std::uint16_t port) {
  launch_info who;
  who.rank = who.local_rank = me;
  who.size = who.local_size = static_cast<int>(colours.size());
  who.address = "127.0.0.1";
  who.port = port;
  who.job = "gpu-islands";
  settings options;
  options.operation_timeout = std::chrono::seconds(60);
  std::shared_ptr<store> meeting = co_await store::meet(who, options);
  std::unique_ptr<fabric> over = co_await shm::make_fabric(std::move(meeting), options);
  const std::unique_ptr<fabric> job = devices::make_fabric(std::move(over), options);
  {
    communicator all = co_await make_communicator(*job, options);
    const int colour = colours[static_cast<std::size_t>(me)] - '0';
    const island_member mine(memory_kind::cuda, device_of(colours, me), colour);
    const std::unique_ptr<islands> in = co_await islands::make(all, mine);
    accelerator& device = accelerator_at(mine.kind, mine.device);
    for (const island_call& each : all_calls(who.size)) {
      std::string wrong;
      try {
        co_await check(*in, all, device, each);
      } catch (const std::exception& why) {
        wrong = text(each) + ": " + why.what();
      }
      if (!wrong.empty()) throw std::runtime_error(wrong);
    }
    co_await barrier(all);
  }
  job->close();
}

/// Colours by rank.
class GpuIslands : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const accelerators all = find_accelerators(memory_kind::cuda);
    const int needed = devices_for(GetParam());
    if (static_cast<int>(all.found.size()) < needed) {
      GTEST_SKIP() << "needs " << needed << " GPUs: " << all.found.size() << " here "
                   << all.why_none;
    }
    std::string why;
    if (needed > 1 && detail::find_nccl(memory_kind::cuda, why) == nullptr) GTEST_SKIP() << why;
  }
};

TEST_P(GpuIslands, MakeWhatOneProcessorMakes) {
  const std::uint16_t port = free_port();
  std::vector<std::unique_ptr<rank_process>> ranks;
  for (int r = 0; r < static_cast<int>(GetParam().size()); ++r) {
    ranks.push_back(std::make_unique<rank_process>(GetParam(), r, port));
  }
  for (const auto& each : ranks) {
    const std::string said = each->rest();
    EXPECT_EQ(each->wait(), 0) << said;
  }
}

INSTANTIATE_TEST_SUITE_P(
    , GpuIslands, testing::Values("01", "00", "010", "0011", "0110", "0001", "01010", "0000"),
    [](const testing::TestParamInfo<std::string>& of) { return "Colours" + of.param; });

}  // namespace
}  // namespace tandem::test

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "--rank") {
    const auto port = static_cast<std::uint16_t>(std::stoi(argv[4]));
    return tandem::test::exit_status_of(tandem::test::play(argv[2], std::stoi(argv[3]), port));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
