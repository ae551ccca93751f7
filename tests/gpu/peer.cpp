// Peer copies between two processes on real GPUs; one GPU suffices. Without a GPU every test is
// skipped with a message. Each rank is another process of this program, because a process that has
// used a GPU cannot fork.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <tandem/accelerator.hpp>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/communicator.hpp>
#include <tandem/detail/nccl.hpp>
#include <tandem/parallel.hpp>
#include <tandem/pipeline.hpp>
#include <tandem/store.hpp>
#include <tandem/window.hpp>

#include "collectives/job.hpp"
#include "gpu/counted_cuda.hpp"
#include "gpu/gpu_stage.hpp"
#include "gpu/page_memory.hpp"
#include "gpu/rank_process.hpp"
#include "support/pattern.hpp"
#include "support/reserved_port.hpp"

namespace tandem::test {
namespace {

namespace asio = boost::asio;
using asio::awaitable;
using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Body of a rank; `me` is 0 or 1.
using role = awaitable<void> (*)(fabric& job, channel& peer, int me, accelerator& gpu);

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

/// Device memory that is filled with a pattern or compared with one.
void write(accelerator& gpu, const mutable_view& to, std::uint64_t seed) {
  pinned_buffer here(gpu, std::max<std::size_t>(to.bytes, 1));
  fill({here.data(), to.bytes}, seed);
  const device_stream on(gpu);
  gpu.copy(to.data, here.data(), to.bytes, on.get());
  gpu.finish(on.get());
}
bool holds(accelerator& gpu, const const_view& from, std::uint64_t seed) {
  pinned_buffer here(gpu, std::max<std::size_t>(from.bytes, 1));
  std::memset(here.data(), 0, from.bytes);
  const device_stream on(gpu);
  gpu.copy(here.data(), from.data, from.bytes, on.get());
  gpu.finish(on.get());
  return !first_wrong({here.data(), from.bytes}, seed);
}

constexpr std::size_t most_bytes = std::size_t{64} << 20;

awaitable<void> exchange(channel& peer, const_view out, mutable_view in) {
  std::vector<awaitable<void>> both;
  both.push_back(peer.send(0, out));
  both.push_back([](channel& on, mutable_view into) -> awaitable<void> {
    co_await on.recv(0, into);
  }(peer, in));
  co_await when_all(std::move(both));
}

awaitable<void> every_size(fabric& job, channel& peer, int me, accelerator& gpu) {
  const buffer out(most_bytes, gpu.kind(), gpu.device()), in(most_bytes, gpu.kind(), gpu.device());
  std::uint64_t seed = 1;
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{8},
                                    std::size_t{4097}, (std::size_t{1} << 20) + 3, most_bytes}) {
      seed += 2;
      write(gpu, out.view().part(0, bytes), seed + static_cast<unsigned>(me));
      co_await exchange(peer, const_view(out.view()).part(0, bytes), in.view().part(0, bytes));
      require(holds(gpu, in.view().part(0, bytes), seed + static_cast<unsigned>(1 - me)),
              "other bytes than were sent, of " + std::to_string(bytes));
    }
  }
  require(job.kind_to(1 - me) == "peer copies", std::string(job.kind_to(1 - me)));
  require(counted_cuda::copies() > 0, "nothing was counted");
  require(counted_cuda::kernels() == 0, std::to_string(counted_cuda::kernels()) + " kernels");
}

awaitable<void> many_in_flight(fabric&, channel& peer, int me, accelerator& gpu) {
  constexpr std::size_t each = (std::size_t{1} << 20) + 64, count = 32;
  const buffer memory(each * count, gpu.kind(), gpu.device());
  for (std::uint64_t round = 0; round < 4; ++round) {
    if (me == 0) write(gpu, memory.view(), round);
    std::vector<awaitable<void>> all;
    for (std::size_t i = 0; i < count; ++i) {
      const mutable_view view = memory.view().part(i * each, each);
      all.push_back([](channel& on, flow_id flow, mutable_view at, int rank) -> awaitable<void> {
        if (rank == 0) {
          co_await on.send(flow, at);
        } else {
          co_await on.recv(flow, at);
        }
      }(peer, static_cast<flow_id>(i), view, me));
    }
    co_await when_all(std::move(all));
    if (me == 1) require(holds(gpu, memory.view(), round), "other bytes than were sent");
  }
}

std::size_t free_bytes(accelerator& gpu) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr || gpu.kind() != memory_kind::cuda) return 0;
  const auto ask =
      reinterpret_cast<int (*)(std::size_t*, std::size_t*)>(::dlsym(driver, "cuMemGetInfo_v2"));
  const auto retain =
      reinterpret_cast<int (*)(void**, int)>(::dlsym(driver, "cuDevicePrimaryCtxRetain"));
  const auto push = reinterpret_cast<int (*)(void*)>(::dlsym(driver, "cuCtxPushCurrent_v2"));
  const auto pop = reinterpret_cast<int (*)(void**)>(::dlsym(driver, "cuCtxPopCurrent_v2"));
  void* context = nullptr;
  std::size_t free = 0, total = 0;
  retain(&context, gpu.device());
  push(context);
  ask(&free, &total);
  pop(&context);
  return free;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

awaitable<void> ten_thousand(fabric&, channel& peer, int me, accelerator& gpu) {
  const buffer memory(1 << 20, gpu.kind(), gpu.device());
  std::size_t free_before = 0, descriptors_before = 0;
  counted_cuda::objects before;
  for (int i = 0; i < 12'000; ++i) {
    if (i == 2000) {  // every length and transfer method has been used
      free_before = free_bytes(gpu);
      descriptors_before = open_descriptors();
      before = counted_cuda::open();
    }
    const mutable_view view = memory.view().part(0, 1 + static_cast<std::size_t>(i) * 97 % 100'000);
    if ((i + me) % 2 == 0) {
      co_await peer.send(0, view);
    } else {
      co_await peer.recv(0, view);
    }
  }
  const counted_cuda::objects after = counted_cuda::open();
  require(before.events > 0 && before.streams > 0, "nothing was counted");
  require(after == before,
          counted_cuda::text(before) + " before, " + counted_cuda::text(after) + " after");
  require(counted_cuda::kernels() == 0, std::to_string(counted_cuda::kernels()) + " kernels");
  const std::size_t free_after = free_bytes(gpu);
  // Another program on the device may allocate some.
  require(free_after + (std::size_t{8} << 20) >= free_before,
          std::to_string(free_before - free_after) + " bytes of device memory have leaked");
  require(open_descriptors() <= descriptors_before + 2, "descriptors are left open");
}

/// Rank 1 is killed by the test while messages move without end.
awaitable<void> without_end(fabric&, channel& peer, int me, accelerator& gpu) {
  const buffer memory(most_bytes, gpu.kind(), gpu.device());
  for (bool announced = false;; announced = true) {
    if (me == 0) {
      co_await peer.send(0, memory.view());
    } else {
      co_await peer.recv(0, memory.view());
    }
    if (!announced) std::cout << "moving" << std::endl;
  }
}

/// The same while both are inside the vendor's library.
awaitable<void> island_without_end(fabric& job, channel&, int, accelerator& gpu) {
  communicator all = co_await make_communicator(job, settings{});
  const island_member mine(gpu.kind(), gpu.device());
  const std::unique_ptr<communicator> one = co_await make_island_communicator(all, mine);
  const buffer memory(most_bytes, gpu.kind(), gpu.device());
  for (bool announced = false;; announced = true) {
    // Minimum and maximum of floating point do not use the library.
    co_await all_reduce(*one, memory.view(), data_type::int32, reduce_op::maximum);
    if (!announced) std::cout << "moving" << std::endl;
  }
}

/// Memory of pages, within them and across, also where others have replaced them.
awaitable<void> pages(fabric& over, channel& peer, int me, accelerator& gpu) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  page_memory out(gpu, {2 * mib, 20 * mib, 2 * mib, 20 * mib});
  page_memory in(gpu, {20 * mib, 2 * mib, 20 * mib, 2 * mib});
  std::uint64_t seed = 1;
  std::size_t direct = 0;
  for (int round = 0; round < 4; ++round) {
    for (const auto& [offset, bytes] :
         {std::pair{std::size_t{0}, std::size_t{8}}, std::pair{2 * mib - 100, std::size_t{4097}},
          std::pair{mib, 30 * mib + 3}, std::pair{22 * mib, 22 * mib}}) {
      seed += 2;
      write(gpu, out.view(offset, bytes), seed + static_cast<unsigned>(me));
      const std::size_t before = counted_cuda::copies();
      co_await exchange(peer, out.view(offset, bytes), in.view(offset, bytes));
      direct += counted_cuda::copies() - before <= 2 ? 1 : 0;
      require(holds(gpu, in.view(offset, bytes), seed + static_cast<unsigned>(1 - me)),
              "other bytes than were sent, of " + std::to_string(bytes));
    }
    if (round == 1) out.replace(gpu, 2 * mib, 20 * mib);
    if (round == 2) in.replace(gpu, 22 * mib, 20 * mib);
  }
  require(over.kind_to(1 - me) == "peer copies", std::string(over.kind_to(1 - me)));
  require(direct >= 8, std::to_string(direct) + " of 16 messages were copied directly");
  require(counted_cuda::kernels() == 0, std::to_string(counted_cuda::kernels()) + " kernels");
}

/// Each puts into the other's memory and reads it back, with a notification for every put.
awaitable<void> windows(fabric& over, channel&, int me, accelerator& gpu) {
  communicator both = co_await make_communicator(over, settings{});
  const buffer memory(most_bytes, gpu.kind(), gpu.device());
  const buffer out(most_bytes, gpu.kind(), gpu.device()), in(most_bytes, gpu.kind(), gpu.device());
  window shared = co_await make_window(both, memory.view());
  std::uint64_t seed = 1;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{4097},
                                  (std::size_t{1} << 20) + 3, most_bytes}) {
    seed += 2;
    const std::size_t offset = (most_bytes - bytes) / 2;
    write(gpu, out.view().part(0, bytes), seed + static_cast<unsigned>(me));
    co_await shared.put(1 - me, offset, const_view(out.view()).part(0, bytes), seed);
    const window_notification arrived = co_await shared.notified();
    require(arrived.value == seed && arrived.bytes == bytes && arrived.offset == offset,
            "another notification");
    require(holds(gpu, memory.view().part(offset, bytes), seed + static_cast<unsigned>(1 - me)),
            "a put of " + std::to_string(bytes) + " has other bytes");
    co_await shared.get(1 - me, offset, in.view().part(0, bytes));
    require(holds(gpu, in.view().part(0, bytes), seed + static_cast<unsigned>(me)),
            "a get of " + std::to_string(bytes) + " has other bytes");
    co_await barrier(both);
  }
  co_await shared.close();
  require(over.kind_to(1 - me) == "peer copies", std::string(over.kind_to(1 - me)));
  require(counted_cuda::kernels() == 0, std::to_string(counted_cuda::kernels()) + " kernels");
}

/// Every schedule, with the results of the same stages in the memory of one process.
awaitable<void> pipelines(fabric& over, channel&, int me, accelerator& gpu) {
  communicator both = co_await make_communicator(over, settings{});
  device_watch watch(co_await asio::this_coro::executor, gpu);
  for (const pipeline_shape& shape : shapes_of(2, 6)) {
    const pipeline_schedule all = make_schedule(shape);
    const stage_list expected = make_stages(all, gpu_stage::length);
    job in_one_process(2);
    const job::rank_body body = [&](int rank) {
      return run_pipeline(in_one_process.world(rank), all,
                          *expected[static_cast<std::size_t>(rank)]);
    };
    require(in_one_process.run(body).empty(), text_of(shape) + ": in one process it fails");
    const integer_stage& right = *expected[static_cast<std::size_t>(me)];
    for (int step = 0; step < 3; ++step) {
      gpu_stage work(me, all, gpu, watch);
      co_await run_pipeline(both, all, work);
      bool is_right = work.outcomes == right.outcomes && work.gradients == right.gradients;
      for (int chunk = 0; chunk < all.chunks; ++chunk) {
        is_right = is_right && work.weights(chunk) == right.weights(chunk);
      }
      require(is_right, text_of(shape) + ": other results than in one process");
      require(!work.outcomes.empty() || !work.gradients.empty() || me > 0, "nothing was computed");
    }
  }
  require(over.kind_to(1 - me) == "peer copies", std::string(over.kind_to(1 - me)));
  require(counted_cuda::kernels() == 0, std::to_string(counted_cuda::kernels()) + " kernels");
}

const std::vector<std::pair<std::string, role>>& parts() {
  static const std::vector<std::pair<std::string, role>> all{
      {"every_size", every_size},     {"many_in_flight", many_in_flight},
      {"ten_thousand", ten_thousand}, {"pages", pages},
      {"windows", windows},           {"pipelines", pipelines},
      {"without_end", without_end},   {"island_without_end", island_without_end}};
  return all;
}

awaitable<void> run_rank(role what, int me, std::uint16_t port) {
  launch_info who;
  who.rank = who.local_rank = me;
  who.size = who.local_size = 2;
  who.address = "127.0.0.1";
  who.port = port;
  who.job = "gpu";
  settings options;
  options.operation_timeout = 60s;
  std::shared_ptr<store> meeting = co_await store::meet(who, options);
  std::unique_ptr<fabric> over = co_await shm::make_fabric(std::move(meeting), options);
  const std::unique_ptr<fabric> job = devices::make_fabric(std::move(over), options);
  channel& peer = co_await job->to(1 - me);
  const accelerators all = find_accelerators(memory_kind::cuda);
  accelerator& gpu = *all.found[static_cast<std::size_t>(me) % all.found.size()];
  co_await what(*job, peer, me, gpu);
  std::byte last{};
  const mutable_view word(&last, 1);
  co_await peer.send(9, word);
  co_await peer.recv(9, word);
  job->close();
}

/// Main function of a rank's process.
int be_rank(const std::string& name, int me, std::uint16_t port) {
  if (name != "island_without_end") counted_cuda::begin();
  for (const auto& [known, what] : parts()) {
    if (known == name) return exit_status_of(run_rank(what, me, port));
  }
  return 2;
}

class gpu_peers : public testing::Test {
 protected:
  void SetUp() override {
    const accelerators all = find_accelerators(memory_kind::cuda);
    if (all.found.empty()) GTEST_SKIP() << all.why_none;
  }
  static void expect_success(const std::string& part) {
    const reserved_port port;
    rank_process first(part, 0, port.number()), second(part, 1, port.number());
    for (rank_process* const each : {&first, &second}) {
      const std::string output = each->line();
      EXPECT_EQ(each->wait(), 0) << output;
    }
  }
};

TEST_F(gpu_peers, every_size_in_both_directions_without_kernels) {
  expect_success("every_size");
}
TEST_F(gpu_peers, many_in_flight) {
  expect_success("many_in_flight");
}
TEST_F(gpu_peers, ten_thousand_operations_leave_nothing) {
  expect_success("ten_thousand");
}
TEST_F(gpu_peers, pages_of_several_allocations) {
  expect_success("pages");
}
TEST_F(gpu_peers, windows_without_kernels) {
  expect_success("windows");
}
TEST_F(gpu_peers, pipelines_of_every_schedule) {
  expect_success("pipelines");
}

void kill_one(const std::string& part) {
  for (const int killed : {0, 1}) {
    const reserved_port port;
    rank_process first(part, 0, port.number()), second(part, 1, port.number());
    EXPECT_TRUE(first.has_line("moving"));
    EXPECT_TRUE(second.has_line("moving"));
    rank_process& other = killed == 0 ? second : first;
    const clock::time_point begun = clock::now();
    (killed == 0 ? first : second).kill();
    const std::string output = other.rest();
    EXPECT_NE(other.wait(), 0);
    EXPECT_LT(clock::now() - begun, 2s);
    EXPECT_NE(output.find("rank " + std::to_string(killed)), std::string::npos) << output;
  }
}

TEST_F(gpu_peers, a_killed_peer_ends_the_other_within_two_seconds) {
  kill_one("without_end");
}
TEST_F(gpu_peers, a_rank_killed_inside_the_vendors_library_ends_the_other_within_two_seconds) {
  std::string why;
  if (find_accelerators(memory_kind::cuda).found.size() < 2) GTEST_SKIP() << "needs two GPUs";
  if (detail::find_nccl(memory_kind::cuda, why) == nullptr) GTEST_SKIP() << why;
  kill_one("island_without_end");
}

}  // namespace
}  // namespace tandem::test

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "--rank") {
    return tandem::test::be_rank(argv[2], std::stoi(argv[3]),
                                 static_cast<std::uint16_t>(std::stoi(argv[4])));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
