// One thread calls for two ranks of its process, over a library that returns at once. With
// TANDEM_TEST_COST=1, by hand: what handing a call to the library costs the thread.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <latch>
#include <vector>

#include "comm_handle.hpp"
#include "nccl/rank_threads.hpp"

namespace tandem::test {
namespace {

using nccl_abi::float32;

int calls_of_library = 0;

/// Its functions count.
detail::nccl counting(detail::nccl library) {
  using detail::nc::comm, detail::nc::stream;
  library.group_start = [] { return 0; };
  library.group_end = [] { return 0; };
  library.all_reduce = [](const void*, void*, std::size_t, int, int, comm, stream) {
    ++calls_of_library;
    return 0;
  };
  library.send = [](const void*, std::size_t, int, int, comm, stream) {
    ++calls_of_library;
    return 0;
  };
  library.recv = [](void*, std::size_t, int, int, comm, stream) {
    ++calls_of_library;
    return 0;
  };
  return library;
}

/// As between two calls of a program: the first cache has other data.
void use_cache() {
  static std::vector<char> other(64 * 1024);
  for (std::size_t i = 0; i < other.size(); i += 64) {
    volatile char& one = other[i];
    one = static_cast<char>(one + 1);
  }
}

bool is_timed() {
  return std::getenv("TANDEM_TEST_COST") != nullptr;
}
int repetitions() {
  return is_timed() ? 4000 : 20;
}

double median_ns(const std::function<void()>& what) {
  using clock = std::chrono::steady_clock;
  std::vector<double> all;
  for (int i = 0; i < repetitions(); ++i) {
    use_cache();
    const clock::time_point start = clock::now();
    what();
    all.push_back(std::chrono::duration<double, std::nano>(clock::now() - start).count());
  }
  std::ranges::sort(all);
  return all[all.size() / 2];
}

void make_calls(std::vector<nccl_rank*>& ranks, float* data) {
  const auto all_reduce = [&](int r) {
    nccl_rank& me = *ranks[static_cast<std::size_t>(r)];
    return ncclAllReduce(data, data, 4, float32, nccl_abi::sum, me.comm, me.stream.get());
  };
  const auto exchange = [&](int r) {
    nccl_rank& me = *ranks[static_cast<std::size_t>(r)];
    ncclSend(data, 4, float32, 1 - r, me.comm, me.stream.get());
    ncclRecv(data, 4, float32, 1 - r, me.comm, me.stream.get());
  };
  const auto in_group = [](auto what, int count) {
    return [=] {
      ncclGroupStart();
      for (int r = 0; r < count; ++r) what(r);
      ncclGroupEnd();
    };
  };
  const double nothing = median_ns([] {});
  const auto check = [&](const char* name, const std::function<void()>& what, int calls) {
    what();
    calls_of_library = 0;
    const double took = median_ns(what) - nothing;
    if (is_timed()) std::printf("%-44s %6.0f ns\n", name, took);
    EXPECT_EQ(calls_of_library, repetitions() * calls) << name;
  };
  check(
      "an all_reduce", [&] { all_reduce(0); }, 1);
  check("a group of two ranks' all_reduce", in_group(all_reduce, 2), 2);
  check("a group of a send and a receive", in_group(exchange, 1), 2);
  check("a group of two ranks' send and receive", in_group(exchange, 2), 4);
}

TEST(NcclCallCost, TheLibraryGetsEachCallOfAThreadWithTwoRanks) {
  nccl_ranks ranks(2, islands::one);
  std::vector<nccl_rank*> all(2);
  std::latch joined(2), over(1);
  ranks.run([&](nccl_rank& me) {
    device_numbers data(me, filled(4, 1));
    me.gpu->finish(me.stream.get());  // nothing else here waits for the stream
    all[static_cast<std::size_t>(me.rank)] = &me;
    joined.arrive_and_wait();
    if (me.rank != 0) return over.wait();
    auto& library = const_cast<detail::nccl&>(*me.comm->library);
    const detail::nccl was = std::exchange(library, counting(library));
    make_calls(all, static_cast<float*>(at(data)));
    library = was;
    over.count_down();
  });
}

}  // namespace
}  // namespace tandem::test
