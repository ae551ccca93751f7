// A program that knows NCCL's interface only, with buffers in the memory of the host
// (TANDEM_NCCL_HOST=1): `tandem run -n N --nccl -- PROGRAM FILE CASE`. FILE passes the unique id
// on.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "nccl/functions.hpp"

namespace {

int rank = 0, ranks = 1;

[[noreturn]] void fail(const char* what, int line) {
  std::fprintf(stderr, "line %d: %s: %s\n", line, what, ncclGetLastError(nullptr));
  std::exit(1);
}
#define CHECK(condition)                          \
  do {                                            \
    if (!(condition)) fail(#condition, __LINE__); \
  } while (false)
#define OK(call) CHECK((call) == nccl_abi::success)

nccl_abi::unique_id meet(const std::string& file) {
  nccl_abi::unique_id id;
  if (rank == 0) {
    OK(ncclGetUniqueId(&id));
    std::ofstream(file + ".new", std::ios::binary).write(id.internal, sizeof id.internal);
    CHECK(std::rename((file + ".new").c_str(), file.c_str()) == 0);
    return id;
  }
  for (int tries = 0; tries < 2000; ++tries) {
    std::ifstream in(file, std::ios::binary);
    if (in.read(id.internal, sizeof id.internal)) return id;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  fail("no unique id from rank 0", __LINE__);
}

template <class T>
std::vector<T> some(std::size_t count, int of_rank) {
  std::vector<T> made(count);
  for (std::size_t i = 0; i < count; ++i)
    made[i] = static_cast<T>((i * 7 + static_cast<std::size_t>(of_rank)) % 50 + 1);
  return made;
}

template <class T>
void all_reduce_sums(nccl_abi::comm over, nccl_abi::type type, std::size_t count) {
  const std::vector<T> mine = some<T>(count, rank);
  std::vector<T> sum(count), expected(count);
  for (int r = 0; r < ranks; ++r) {
    const std::vector<T> theirs = some<T>(count, r);
    for (std::size_t i = 0; i < count; ++i) expected[i] = static_cast<T>(expected[i] + theirs[i]);
  }
  OK(ncclAllReduce(mine.data(), sum.data(), count, type, nccl_abi::sum, over, nullptr));
  CHECK(sum == expected);
}

void collectives(nccl_abi::comm over) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{17}, std::size_t{100'003}}) {
    all_reduce_sums<float>(over, nccl_abi::float32, count);
    all_reduce_sums<double>(over, nccl_abi::float64, count);
    all_reduce_sums<std::int32_t>(over, nccl_abi::int32, count);
    all_reduce_sums<std::int64_t>(over, nccl_abi::int64, count);
    all_reduce_sums<std::uint64_t>(over, nccl_abi::uint64, count);
    all_reduce_sums<std::uint32_t>(over, nccl_abi::uint32, count);
    all_reduce_sums<std::uint8_t>(over, nccl_abi::uint8, count);
    all_reduce_sums<std::int8_t>(over, nccl_abi::int8, count);
  }
  const std::size_t count = 1000;
  const auto n = static_cast<std::size_t>(ranks);
  const std::vector<int> mine = some<int>(count, rank);
  std::vector<int> all(count * n, -1);
  OK(ncclAllGather(mine.data(), all.data(), count, nccl_abi::int32, over, nullptr));
  for (std::size_t r = 0; r < n; ++r) {
    CHECK(std::vector<int>(all.begin() + static_cast<long>(r * count),
                           all.begin() + static_cast<long>((r + 1) * count)) ==
          some<int>(count, static_cast<int>(r)));
  }
  // In one group: to the next rank, from the one before, and a sum of another length.
  std::vector<int> received(count);
  std::vector<float> ones(5, 1), sums(5);
  OK(ncclGroupStart());
  OK(ncclSend(mine.data(), count, nccl_abi::int32, (rank + 1) % ranks, over, nullptr));
  OK(ncclRecv(received.data(), count, nccl_abi::int32, (rank + ranks - 1) % ranks, over, nullptr));
  OK(ncclAllReduce(ones.data(), sums.data(), 5, nccl_abi::float32, nccl_abi::sum, over, nullptr));
  OK(ncclGroupEnd());
  CHECK(received == some<int>(count, (rank + ranks - 1) % ranks));
  CHECK(sums == std::vector<float>(5, static_cast<float>(ranks)));

  std::vector<int> from(n), into(n, -1);
  for (int r = 0; r < ranks; ++r) from[static_cast<std::size_t>(r)] = 100 * rank + r;
  OK(ncclAlltoAll(from.data(), into.data(), 1, nccl_abi::int32, over, nullptr));
  for (int r = 0; r < ranks; ++r) CHECK(into[static_cast<std::size_t>(r)] == 100 * r + rank);

  void* memory = nullptr;
  OK(ncclMemAlloc(&memory, 1 << 20));
  std::memset(memory, rank == ranks - 1 ? 5 : 0, 1 << 20);
  OK(ncclBcast(memory, 1 << 20, nccl_abi::uint8, ranks - 1, over, nullptr));
  CHECK(static_cast<const char*>(memory)[(1 << 20) - 1] == 5);
  OK(ncclMemFree(memory));

  nccl_abi::comm half = nullptr;
  OK(ncclCommSplit(over, rank % 2, rank, &half, nullptr));
  std::vector<float> in_half(3, 1);
  OK(ncclAllReduce(in_half.data(), in_half.data(), 3, nccl_abi::float32, nccl_abi::sum, half,
                   nullptr));
  CHECK(in_half[2] == static_cast<float>(rank % 2 == 0 ? (ranks + 1) / 2 : ranks / 2));
  OK(ncclCommDestroy(half));
}

/// The last rank is killed; every other one gets an error within two seconds.
void killed(nccl_abi::comm over) {
  std::vector<float> data(1000, 1);
  const auto begun = std::chrono::steady_clock::now();
  nccl_abi::result got = nccl_abi::success;
  for (int round = 0; got == nccl_abi::success; ++round) {
    if (rank == ranks - 1 && round == 20) std::raise(SIGKILL);
    got = ncclAllReduce(data.data(), data.data(), 1000, nccl_abi::float32, nccl_abi::average, over,
                        nullptr);
  }
  CHECK(got == nccl_abi::remote_error);
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(4));
  CHECK(std::string(ncclGetLastError(over)).find("rank " + std::to_string(ranks - 1)) !=
        std::string::npos);
  nccl_abi::result now = nccl_abi::success;
  OK(ncclCommGetAsyncError(over, &now));
  CHECK(now == nccl_abi::remote_error);
  OK(ncclCommAbort(over));
  std::printf("reported the killed rank\n");
  std::fflush(stdout);
}

/// Rank 0, which serves the job, is killed; the others make a communicator without it.
void survives(nccl_abi::comm over) {
  std::vector<float> data(1000, 1);
  nccl_abi::result got = nccl_abi::success;
  for (int round = 0; got == nccl_abi::success; ++round) {
    if (rank == 0 && round == 20) std::raise(SIGKILL);
    got = ncclAllReduce(data.data(), data.data(), 1000, nccl_abi::float32, nccl_abi::average, over,
                        nullptr);
  }
  CHECK(got == nccl_abi::remote_error);
  int lost[] = {0};
  nccl_abi::comm fewer = nullptr;
  OK(ncclCommShrink(over, lost, 1, &fewer, nullptr, nccl_abi::shrink_abort));
  OK(ncclCommAbort(over));
  std::vector<float> sum(1000, static_cast<float>(rank));
  OK(ncclAllReduce(sum.data(), sum.data(), 1000, nccl_abi::float32, nccl_abi::sum, fewer, nullptr));
  CHECK(sum == std::vector<float>(1000, static_cast<float>(ranks * (ranks - 1) / 2)));
  OK(ncclCommDestroy(fewer));
  std::printf("reported the killed rank\n");
  std::fflush(stdout);
}

void one_rank_fewer(nccl_abi::comm over) {
  if (rank == ranks - 1) {  // does not make the call, and leaves
    OK(ncclCommDestroy(over));
    return;
  }
  float value = 1;
  CHECK(ncclAllReduce(&value, &value, 1, nccl_abi::float32, nccl_abi::sum, over, nullptr) !=
        nccl_abi::success);
  OK(ncclCommAbort(over));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string what = argv[2];
  rank = std::atoi(std::getenv("RANK"));
  ranks = std::atoi(std::getenv("WORLD_SIZE"));
  const nccl_abi::unique_id id = meet(argv[1]);
  nccl_abi::comm over = nullptr;
  OK(ncclCommInitRank(&over, ranks, id, rank));
  if (what == "collectives") {
    collectives(over);
    OK(ncclCommDestroy(over));
  } else if (what == "killed") {
    killed(over);
  } else if (what == "survives") {
    survives(over);
  } else if (what == "one_rank_fewer") {
    one_rank_fewer(over);
  } else {
    return 2;
  }
}
