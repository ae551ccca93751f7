// Islands and parallel groups on real GPUs with the vendor's library: every call compared with a
// serial computation. Each rank is another process of this program. Tests without enough GPUs are
// skipped with a message.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/collectives.hpp>
#include <tandem/communicator.hpp>
#include <tandem/detail/nccl.hpp>
#include <tandem/parallel.hpp>
#include <tandem/store.hpp>

#include "collectives/islands/island_call.hpp"
#include "collectives/nan_cases.hpp"
#include "collectives/parallel/pass_around.hpp"
#include "collectives/slow.hpp"
#include "gpu/rank_process.hpp"
#include "support/reserved_port.hpp"

namespace tandem::test {
namespace {

namespace asio = boost::asio;
using asio::awaitable;

/// @param every_type  every type with every operation; else a selection. In both cases minimum and
///   maximum of every floating-point type with NaN at each position.
std::vector<island_call> all_calls(int ranks, bool every_type) {
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
  const auto is_some = [](data_type type, reduce_op op) {
    return (type == data_type::bfloat16 || type == data_type::float64 || type == data_type::int8) &&
           (op == reduce_op::product || op == reduce_op::minimum || op == reduce_op::average ||
            op == reduce_op::premultiplied_sum);
  };
  for (const data_type type : all_types) {
    for (const reduce_op op : all_ops) {
      if (!is_defined(type, op) || !(every_type || is_some(type, op))) continue;
      for (const collective what : combining) all.emplace_back(what, 4099, type, op, ranks - 1);
    }
  }
  for (const data_type type : floating_types) {
    for (const reduce_op op : extremes) {
      for (const collective what : combining) {
        all.push_back(with_nans(island_call(what, 4099, type, op, ranks - 1)));
      }
    }
  }
  return all;
}

/// By position in the island, so that no two ranks of one island share a GPU; ranks of different
/// islands may.
int device_of(const std::string& colours, int rank) {
  if (colours[static_cast<std::size_t>(rank)] == 'h') return -1;
  const auto own = colours.begin() + rank;
  return static_cast<int>(std::count(colours.begin(), own, *own));
}

int devices_for(const std::string& colours) {
  int device_count = 0;
  for (int r = 0; r < static_cast<int>(colours.size()); ++r) {
    device_count = std::max(device_count, 1 + device_of(colours, r));
  }
  return device_count;
}

/// Colours by rank, "h" for a rank on host memory, and after a colon the layout of parallel groups,
/// if any.
struct shape {
  explicit shape(const std::string& part)
      : colours(part.substr(0, part.find(':'))),
        layout(part.size() > colours.size() ? part.substr(colours.size() + 1) : "") {}

  island_member member(int rank) const {
    const char colour = colours[static_cast<std::size_t>(rank)];
    if (colour == 'h') return island_member(memory_kind::host, 0);
    return island_member(memory_kind::cuda, device_of(colours, rank), colour - '0');
  }

  const std::string colours, layout;
};

awaitable<void> check_islands(communicator& all, island_member mine) {
  const std::unique_ptr<communicator> in = co_await make_island_communicator(all, mine);
  accelerator& device = accelerator_at(mine.kind, mine.device);
  for (const island_call& each : all_calls(all.size(), all.size() == 2)) {
    std::string wrong;
    try {
      co_await check(*in, &device, each);
    } catch (const std::exception& why) {
      wrong = text(each) + ": " + why.what();
    }
    if (!wrong.empty()) throw std::runtime_error(wrong);
  }
  co_await barrier(all);
}

awaitable<void> check_group(communicator& in, const std::string& what, accelerator* device,
                            bool every_type) {
  for (const island_call& each : all_calls(in.size(), every_type)) {
    std::string wrong;
    try {
      co_await check(in, device, each);
    } catch (const std::exception& why) {
      wrong = what + ": " + text(each) + ": " + why.what();
    }
    if (!wrong.empty()) throw std::runtime_error(wrong);
  }
  if (in.size() > 1) co_await pass_around(in, device);
}

/// Transport of each group, which depends on the device.
void require_right_backend(const group_choice& one, const std::string& colours) {
  const auto colour = [&](int rank) { return colours[static_cast<std::size_t>(rank)]; };
  const bool has_host = std::ranges::any_of(one.ranks, [&](int r) { return colour(r) == 'h'; });
  const bool is_one_island =
      std::ranges::all_of(one.ranks, [&](int r) { return colour(r) == colour(one.ranks[0]); });
  std::string wanted = "peer copies";
  if (has_host) {
    wanted = is_one_island ? "shm" : "forwarding over shm";
  } else if (is_one_island || one.how == group_backend::levels) {
    wanted = "NCCL ";
  }
  if (!one.by.starts_with(wanted)) throw std::runtime_error(one.text() + ", not " + wanted);
}

awaitable<void> check_groups(communicator& all, island_member mine, const shape& of) {
  parallel_layout layout = parallel_layout::parse(of.layout);
  const std::vector<parallel_layout::dimension> dimensions = layout.dimensions();
  const std::unique_ptr<parallel_groups> groups =
      co_await parallel_groups::make(all, std::move(layout), mine);
  for (const group_choice& each : groups->agreed()) require_right_backend(each, of.colours);
  accelerator* const device =
      mine.kind == memory_kind::host ? nullptr : &accelerator_at(mine.kind, mine.device);
  for (const parallel_layout::dimension& each : dimensions) {
    const std::string what = groups->choice(each.name).text();
    co_await check_group(groups->group(each.name), what, device, all.size() == 2);
  }
  co_await barrier(all);
}

awaitable<void> run_rank(std::string part, int me, std::uint16_t port) {
  const shape of(part);
  launch_info who;
  who.rank = who.local_rank = me;
  who.size = who.local_size = static_cast<int>(of.colours.size());
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
    const island_member mine = of.member(me);
    if (of.layout.empty()) {
      co_await check_islands(all, mine);
    } else {
      co_await check_groups(all, mine, of);
    }
  }
  job->close();
}

/// Shapes, parsed by `shape`.
class GpuIslands : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const accelerators all = find_accelerators(memory_kind::cuda);
    const int needed = devices_for(shape(GetParam()).colours);
    if (static_cast<int>(all.found.size()) < needed) {
      GTEST_SKIP() << "needs " << needed << " GPUs: " << all.found.size() << " here "
                   << all.why_none;
    }
    std::string why;
    if (needed > 1 && detail::find_nccl(memory_kind::cuda, why) == nullptr) GTEST_SKIP() << why;
  }
};

TEST_P(GpuIslands, MatchSerialResults) {
  const reserved_port port;
  const auto ranks_of_part = static_cast<int>(shape(GetParam()).colours.size());
  std::vector<std::unique_ptr<rank_process>> ranks;
  for (int r = 0; r < ranks_of_part; ++r) {
    ranks.push_back(std::make_unique<rank_process>(GetParam(), r, port.number()));
  }
  for (const auto& each : ranks) {
    const std::string output = each->rest();
    EXPECT_EQ(each->wait(), 0) << output;
  }
}

INSTANTIATE_TEST_SUITE_P(
    , GpuIslands, testing::Values("01", "00", "010", "0011", "0110", "0001", "01010", "0000"),
    [](const testing::TestParamInfo<std::string>& of) { return "Colours" + of.param; });

INSTANTIATE_TEST_SUITE_P(InGroups, GpuIslands,
                         testing::Values("00:tensor=2", "01:pipeline=2", "0011:pipeline=2,tensor=2",
                                         "0011:data=4", "0101:data=2,pipeline=2",
                                         "00hh:pipeline=2,data=2", "hh:data=2",
                                         "00001111:pipeline=2,data=2,tensor=2"),
                         [](const testing::TestParamInfo<std::string>& of) {
                           std::string name = "Colours" + of.param;
                           std::ranges::replace_if(
                               name, [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

}  // namespace
}  // namespace tandem::test

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "--rank") {
    const auto port = static_cast<std::uint16_t>(std::stoi(argv[4]));
    return tandem::test::exit_status_of(tandem::test::run_rank(argv[2], std::stoi(argv[3]), port));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
