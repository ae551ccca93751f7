// The time of a bare copy: one process has written messages to shared memory, the other copies each
// of them to private memory. The limit of any transport that copies a message once on one core.
// Both poll.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>

#include "harness.hpp"
#include "perf/pattern.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

struct shared_counters {
  alignas(64) std::atomic<std::uint64_t> published;
  alignas(64) std::atomic<std::uint64_t> consumed;
  alignas(64) std::atomic<std::uint64_t> wrong_bytes;
};

struct messages {
  shared_counters* counters;
  std::byte* data;
};

messages share(std::size_t bytes) {
  const std::size_t all = sizeof(shared_counters) + bytes;
  void* const at = ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  tandem::bench::require(at != MAP_FAILED, "mmap");
  return {new (at) shared_counters{}, static_cast<std::byte*>(at) + sizeof(shared_counters)};
}

void wait_for(const std::atomic<std::uint64_t>& word, std::uint64_t value) {
  while (word.load(std::memory_order_acquire) != value) {
  }
}

int run_size(const tandem::bench::plan& what, const tandem::bench::measurement& of) {
  const auto depth = static_cast<std::size_t>(what.depth);
  const messages from = share(of.bytes * depth);
  const std::uint64_t rounds = static_cast<std::uint64_t>(what.warmup + of.iters);
  return tandem::bench::fork_ranks(2, [&](int rank) {
    const std::span<std::byte> all(from.data, of.bytes * depth);
    if (rank == 0) {
      std::vector<double> samples_us;
      for (std::uint64_t i = 1; i <= rounds; ++i) {
        // Leaves the data in this core's cache as far as it fits, as after a sender's writes.
        tandem::perf::fill(all, {}, i);
        const auto begun = clock_type::now();
        from.counters->published.store(i, std::memory_order_release);
        wait_for(from.counters->consumed, i);
        const std::chrono::duration<double, std::micro> took = clock_type::now() - begun;
        if (i > static_cast<std::uint64_t>(what.warmup)) samples_us.push_back(took.count());
      }
      wait_for(from.counters->consumed, rounds + 1);
      tandem::bench::print_record(what, of, "memcpy", samples_us, from.counters->wrong_bytes);
      return from.counters->wrong_bytes == 0 ? 0 : 1;
    }
    const auto own = std::make_unique<std::byte[]>(all.size());
    std::memset(own.get(), 0, all.size());
    for (std::uint64_t i = 1; i <= rounds; ++i) {
      wait_for(from.counters->published, i);
      for (std::size_t at = 0; at < all.size(); at += of.bytes) {
        std::memcpy(own.get() + at, all.data() + at, of.bytes);
      }
      from.counters->consumed.store(i, std::memory_order_release);
    }
    from.counters->wrong_bytes =
        tandem::perf::wrong_bytes(std::span<const std::byte>(own.get(), all.size()), {}, rounds);
    from.counters->consumed.store(rounds + 1, std::memory_order_release);
    return 0;
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const tandem::bench::plan what = tandem::bench::parse_plan(argc, argv);
    int status = 0;
    for (const tandem::bench::measurement& of : what.measurements) {
      status = std::max(status, run_size(what, of));
    }
    return status;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 2;
  }
}
