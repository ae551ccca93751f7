// Messages and collectives of kernels on real GPUs: the ranks share memory and a thread. Each has a
// GPU of its own where there are enough; with one GPU all ranks are on it. Without one every test
// is skipped with a message. On simulated GPUs: tests/collectives/kernel_*_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <tandem/accelerator.hpp>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/kernel_collectives.hpp>
#include <tandem/kernel_messages.hpp>

#include "collectives/device_job.hpp"
#include "collectives/slow.hpp"
#include "support/pattern.hpp"

namespace tandem::test {
namespace {

using byte_vector = std::vector<std::byte>;
using clock = std::chrono::steady_clock;

/// Its channels carry memory of devices; the tests allocate it.
class gpu_ranks : public device_job {
 public:
  explicit gpu_ranks(int ranks)
      : device_job(*std::ranges::find(fabric_kinds(), "shm", &fabric_kind::name), ranks, settings(),
                   [](int) { return -1; }) {}
};

class GpuKernels : public testing::Test {
 protected:
  explicit GpuKernels(kernel_path how = kernel_path::direct) : how_(how) {}
  void SetUp() override {
    const accelerators here = find_accelerators(memory_kind::cuda);
    if (here.found.empty()) GTEST_SKIP() << here.why_none;
    if (!here.found.front()->facts().has_stream_memory_ops) {
      GTEST_SKIP()
          << "streams of all ranks share the hardware queues of this process: without MPS, "
             "or with CUDA_DEVICE_MAX_CONNECTIONS=8";
    }
    found_ = here.found;
  }
  accelerator& device_of(int rank) const {
    return *found_[static_cast<std::size_t>(rank) % found_.size()];
  }
  buffer on_device(int rank, std::size_t bytes) const {
    const accelerator& on = device_of(rank);
    return buffer(std::max<std::size_t>(bytes, 1), on.kind(), on.device());
  }
  buffer copy_of(int rank, const byte_vector& bytes) const {
    buffer made = on_device(rank, bytes.size());
    copy(rank, made.data(), bytes.data(), bytes.size());
    return made;
  }
  byte_vector content(int rank, const buffer& of, std::size_t bytes) const {
    byte_vector got(bytes);
    copy(rank, got.data(), of.data(), bytes);
    return got;
  }
  void copy(int rank, void* to, const void* from, std::size_t bytes) const {
    accelerator& on = device_of(rank);
    const device_stream stream(on);
    on.copy(to, from, bytes, stream.get());
    on.finish(stream.get());
  }
  asio::awaitable<void> reach(int rank, accelerator::stream on) const {
    device_watch watch(co_await asio::this_coro::executor, device_of(rank));
    co_await watch.reached(on);
  }
  asio::awaitable<kernel_messages::made> make_messages(gpu_ranks& ranks, int rank) const {
    if (how_ == kernel_path::direct)
      return kernel_messages::make(ranks.world(rank), 1 - rank, device_of(rank));
    return kernel_messages::make_relayed(ranks.world(rank), 1 - rank, device_of(rank), {});
  }
  asio::awaitable<kernel_collectives::made> make_collectives(gpu_ranks& ranks, int rank) const {
    return kernel_collectives::make(ranks.world(rank), device_of(rank), std::size_t{4} << 20, {},
                                    how_);
  }

 private:
  const kernel_path how_;
  std::vector<accelerator*> found_;
};

class KernelsOnGpu : public GpuKernels, public testing::WithParamInterface<kernel_path> {
 protected:
  KernelsOnGpu() : GpuKernels(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Paths, KernelsOnGpu,
                         testing::Values(kernel_path::direct, kernel_path::relayed),
                         [](const auto& of) {
                           return of.param == kernel_path::direct ? "Direct" : "Relayed";
                         });

TEST_P(KernelsOnGpu, MessagesOfAnyLengthAndAlignment) {
  for (const std::size_t bytes :
       {1UL, 15UL, 16UL, 8193UL, 65'536UL, 300'001UL, 5UL << 20, (64UL << 20) + 3}) {
    for (const std::size_t skipped : {0UL, 1UL, 4UL}) {
      SCOPED_TRACE(fmt::format("{} bytes, {} left out", bytes, skipped));
      gpu_ranks ranks(2);
      std::vector<byte_vector> sent;
      std::vector<buffer> from, into;
      for (int r = 0; r < 2; ++r) {
        sent.push_back(pattern(bytes + skipped, static_cast<std::uint64_t>(r)));
        from.push_back(copy_of(r, sent.back()));
        into.push_back(copy_of(r, byte_vector(bytes + skipped)));
      }
      const job::rank_body body = [&](int r) -> asio::awaitable<void> {
        const auto at = static_cast<std::size_t>(r);
        const kernel_messages::made made = co_await make_messages(ranks, r);
        EXPECT_EQ(made.why_not, "");
        if (!made.messages) co_return;
        const device_stream on(device_of(r));
        const kernel_messages::message both[] = {
            {made.messages.get(), false, into[at].view().part(skipped, bytes)},
            {made.messages.get(), true, from[at].view().part(skipped, bytes)}};
        std::vector<kernel_messages::end> ends;
        for (int i = 0; i < 20; ++i) ends = kernel_messages::launch(both, on.get());
        co_await reach(r, on.get());
        for (const kernel_messages::end& each : ends) {
          co_await passes(each, GetParam() == kernel_path::direct);
        }
        EXPECT_FALSE(made.messages->find_mismatch());
      };
      ASSERT_EQ(ranks.run(body), "");
      for (int r = 0; r < 2; ++r) {
        const byte_vector got = content(r, into[static_cast<std::size_t>(r)], bytes + skipped);
        const byte_vector& other = sent[static_cast<std::size_t>(1 - r)];
        ASSERT_TRUE(std::equal(got.begin() + static_cast<long>(skipped), got.end(),
                               other.begin() + static_cast<long>(skipped)));
        ASSERT_EQ(std::count(got.begin(), got.begin() + static_cast<long>(skipped), std::byte{0}),
                  static_cast<long>(skipped));
      }
    }
  }
}

/// By streams that know nothing of one another, more than there are slots.
TEST_P(KernelsOnGpu, MessagesKeepTheirOrder) {
  constexpr std::size_t bytes = 20'000, count = 200;
  gpu_ranks ranks(2);
  byte_vector sent;
  for (std::size_t i = 0; i < count; ++i) {
    sent.insert(sent.end(), bytes, static_cast<std::byte>(i + 1));
  }
  const buffer from = copy_of(0, sent), into = copy_of(1, byte_vector(sent.size()));
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const mutable_view all = r == 0 ? from.view() : into.view();
    const kernel_messages::made made = co_await make_messages(ranks, r);
    const device_stream streams[] = {device_stream(device_of(r)), device_stream(device_of(r))};
    for (std::size_t i = 0; i < count; ++i) {
      const kernel_messages::message one{made.messages.get(), r == 0, all.part(i * bytes, bytes)};
      kernel_messages::launch({&one, 1}, streams[i % 2].get());
    }
    for (const device_stream& each : streams) co_await reach(r, each.get());
  };
  ASSERT_EQ(ranks.run(body), "");
  EXPECT_TRUE(content(1, into, sent.size()) == sent);
}

TEST_P(KernelsOnGpu, DifferentLengthsAreNoticedAndAnAbortEndsKernels) {
  gpu_ranks ranks(2);
  const buffer memory[] = {on_device(0, 1000), on_device(1, 1000)};
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const kernel_messages::made made = co_await make_messages(ranks, r);
    const device_stream on(device_of(r));
    const kernel_messages::message one{made.messages.get(), r == 0,
                                       memory[r].view().part(0, r == 0 ? 1000 : 900)};
    kernel_messages::launch({&one, 1}, on.get());
    co_await reach(r, on.get());
    EXPECT_EQ(made.messages->find_mismatch().has_value(), r == 1);
    if (r == 0) co_return;
    made.messages->abort();
    const kernel_messages::message never{made.messages.get(), false, memory[r].view()};
    kernel_messages::launch({&never, 1}, on.get());
    co_await reach(r, on.get());
  };
  ASSERT_EQ(ranks.run(body), "");
}

/// Whether the bits depend on the order of the ranks, which for long data of more than two is
/// another one on channels.
bool depends_on_order(data_type type, reduce_op op) {
  const bool is_floating = name(type).find("float") != std::string_view::npos;
  return is_floating && op != reduce_op::minimum && op != reduce_op::maximum;
}

/// All reductions of all types, and what moves data, at lengths around all limits.
TEST_P(KernelsOnGpu, CollectivesGiveTheBitsOfChannels) {
  const bool is_relayed = GetParam() == kernel_path::relayed;
  for (const int count_of_ranks : {2, 3}) {
    gpu_ranks ranks(count_of_ranks);
    int calls = 0;
    const auto n = static_cast<std::size_t>(count_of_ranks);
    constexpr std::size_t max_count = 700'001;
    for (const data_type type : all_types) {
      std::vector<byte_vector> operands, by_channels;
      std::vector<buffer> from, into;
      for (int r = 0; r < count_of_ranks; ++r) {
        operands.push_back(pattern(max_count * bytes_of(type), static_cast<std::uint64_t>(r + 1)));
        from.push_back(copy_of(r, operands.back()));
        into.push_back(on_device(r, max_count * bytes_of(type)));
        by_channels.emplace_back(max_count * bytes_of(type));
      }
      const job::rank_body body = [&](int r) -> asio::awaitable<void> {
        const auto at = static_cast<std::size_t>(r);
        const kernel_collectives::made made = co_await make_collectives(ranks, r);
        EXPECT_EQ(made.why_not, "");
        const device_stream on(device_of(r));
        for (const reduce_op op : all_ops) {
          if (!is_defined(type, op) || op == reduce_op::premultiplied_sum) continue;
          for (const std::size_t count : {1UL, 1023UL, 30'000UL, max_count}) {
            if (n > 2 && count > 1023 && depends_on_order(type, op)) continue;
            // The loops of all ranks are one thread, which would take minutes.
            if (is_relayed && count == max_count && type != data_type::float32) continue;
            const std::size_t bytes = count * bytes_of(type), block = bytes / n;
            const const_view host = const_view(operands[at]).part(0, bytes);
            const mutable_view expected = mutable_view(by_channels[at]).part(0, bytes);
            const auto check = [&](std::string_view what, std::size_t used) {
              const byte_vector got = content(r, into[at], used);
              EXPECT_EQ(std::memcmp(got.data(), by_channels[at].data(), used), 0)
                  << fmt::format("{}: {} of {} {}, {} ranks", what, name(op), count, name(type), n);
              ++calls;
            };
            const mutable_view there = into[at].view().part(0, bytes);
            const const_view here = from[at].view().part(0, bytes);
            co_await all_reduce(ranks.world(r), host, expected, type, op);
            made.collectives->launch({collective::all_reduce, here, there, type, op}, on.get());
            co_await reach(r, on.get());
            check("all_reduce", bytes);
            if (count % n != 0) continue;
            co_await reduce_scatter(ranks.world(r), host, expected.part(0, block), type, op);
            made.collectives->launch(
                {collective::reduce_scatter, here, there.part(0, block), type, op}, on.get());
            co_await reach(r, on.get());
            check("reduce_scatter", block);
            co_await all_gather(ranks.world(r), host.part(0, block), expected.part(0, n * block));
            made.collectives->launch(
                {collective::all_gather, here.part(0, block), there.part(0, n * block)}, on.get());
            co_await reach(r, on.get());
            check("all_gather", n * block);
          }
        }
      };
      ASSERT_EQ(ranks.run(body), "");
    }
    fmt::print("{} ranks: {} calls compared\n", count_of_ranks, calls);
    EXPECT_GT(calls, is_relayed ? 600 : 1000);
  }
}

/// Both ranks' calls, of a thread that launches one after the other, until both are complete; with
/// one GPU it carries out both, and no NVLink is between.
TEST_F(GpuKernels, PrintTimes) {
  fmt::print("bytes, us: copy on the device, message each way, all_reduce (float32)\n");
  for (std::size_t bytes = 8; bytes <= (std::size_t{4} << 20); bytes *= 8) {
    gpu_ranks ranks(2);
    std::vector<buffer> from, into;
    std::vector<std::shared_ptr<kernel_messages>> messages(2);
    std::vector<std::shared_ptr<kernel_collectives>> collectives(2);
    std::vector<device_stream> streams;
    for (int r = 0; r < 2; ++r) {
      from.push_back(on_device(r, bytes));
      into.push_back(on_device(r, bytes));
      streams.emplace_back(device_of(r));
    }
    const auto time = [&](const std::function<void(int rank, std::size_t at)>& launch) {
      constexpr int times = 200, rounds = 5;
      std::vector<double> each;
      for (int round = 0; round <= rounds; ++round) {
        const clock::time_point begun = clock::now();
        for (int i = 0; i < times; ++i) {
          launch(0, 0);
          launch(1, 1);
        }
        for (int r = 0; r < 2; ++r) {
          device_of(r).finish(streams[static_cast<std::size_t>(r)].get());
        }
        if (round == 0) continue;
        each.push_back(std::chrono::duration<double, std::micro>(clock::now() - begun).count() /
                       times);
      }
      std::ranges::nth_element(each, each.begin() + rounds / 2);
      return each[rounds / 2];
    };
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      const auto at = static_cast<std::size_t>(r);
      messages[at] = (co_await make_messages(ranks, r)).messages;
      collectives[at] = (co_await make_collectives(ranks, r)).collectives;
    };
    ASSERT_EQ(ranks.run(body), "");
    const double copies = time([&](int r, std::size_t at) {
      device_of(r).copy(into[at].data(), from[at].data(), bytes, streams[at].get());
    });
    const double sent = time([&](int, std::size_t at) {
      const kernel_messages::message both[] = {{messages[at].get(), false, into[at].view()},
                                               {messages[at].get(), true, from[at].view()}};
      kernel_messages::launch(both, streams[at].get());
    });
    const double reduced = time([&](int, std::size_t at) {
      collectives[at]->launch(
          {collective::all_reduce, from[at].view(), into[at].view(), data_type::float32},
          streams[at].get());
    });
    fmt::print("{:>8} {:7.1f} {:7.1f} {:7.1f}\n", bytes, copies, sent, reduced);
    EXPECT_GT(sent, 0);
    // On the loop's thread, before the job.
    messages.clear();
    collectives.clear();
  }
}

/// Both ranks' messages, through pinned memory and a ring of shared memory, by one loop.
TEST_F(GpuKernels, PrintTimesOfRelay) {
  fmt::print("bytes, us: message each way, relayed\n");
  for (std::size_t bytes = 8; bytes <= (std::size_t{64} << 20); bytes *= 8) {
    gpu_ranks ranks(2);
    const buffer from[] = {on_device(0, bytes), on_device(1, bytes)};
    const buffer into[] = {on_device(0, bytes), on_device(1, bytes)};
    std::vector<double> each;
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      const int times = bytes < (std::size_t{1} << 20) ? 50 : 5;
      const kernel_messages::made made =
          co_await kernel_messages::make_relayed(ranks.world(r), 1 - r, device_of(r), {});
      const device_stream on(device_of(r));
      const kernel_messages::message both[] = {{made.messages.get(), false, into[r].view()},
                                               {made.messages.get(), true, from[r].view()}};
      for (int round = 0; round < 6; ++round) {
        const clock::time_point begun = clock::now();
        std::vector<kernel_messages::end> ends;
        for (int i = 0; i < times; ++i) {
          ends = kernel_messages::launch(both, on.get());
          co_await reach(r, on.get());
        }
        for (const kernel_messages::end& end : ends) co_await passes(end, false);
        if (r == 0 && round > 0) {
          const std::chrono::duration<double, std::micro> took = clock::now() - begun;
          each.push_back(took.count() / times);
        }
      }
    };
    ASSERT_EQ(ranks.run(body), "");
    ASSERT_EQ(each.size(), 5U);
    std::ranges::nth_element(each, each.begin() + 2);
    fmt::print("{:>8} {:7.1f}\n", bytes, each[2]);
  }
}

}  // namespace
}  // namespace tandem::test
