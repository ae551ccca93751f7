// One-way latency of a cache line between two cores: two processes ping-pong, each on a cache line
// of its own that the other polls. The lower bound of any message between two ranks of a host.
// Prints the median of batches in nanoseconds, one way, and nothing else.
//
// A hypervisor migrates the virtual cores of its virtual machines: between cores that share a cache
// a line takes a quarter of the time that it takes between others, and a virtual machine can only
// find out which it has by measuring.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <vector>

#include "harness.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

constexpr int batches = 5000, trips_per_batch = 10;  // about 10 ms

struct lines {
  alignas(128) std::atomic<int> request;
  alignas(128) std::atomic<int> reply;
};

void wait_for(const std::atomic<int>& line, int value) {
  while (line.load(std::memory_order_acquire) != value) {
  }
}

int initiate(lines& over) {
  std::vector<double> times_ns;
  int trip = 0;
  for (int batch = 0; batch < batches; ++batch) {
    const auto begun = clock_type::now();
    for (int i = 0; i < trips_per_batch; ++i) {
      over.request.store(++trip, std::memory_order_release);
      wait_for(over.reply, trip);
    }
    const std::chrono::duration<double, std::nano> took = clock_type::now() - begun;
    times_ns.push_back(took.count() / (2 * trips_per_batch));
  }
  std::ranges::nth_element(times_ns, times_ns.begin() + batches / 2);
  std::printf("%.1f\n", times_ns[batches / 2]);
  return 0;
}

int respond(lines& over) {
  for (int trip = 1; trip <= batches * trips_per_batch; ++trip) {
    wait_for(over.request, trip);
    over.reply.store(trip, std::memory_order_release);
  }
  return 0;
}

}  // namespace

int main() {
  try {
    void* const at =
        ::mmap(nullptr, sizeof(lines), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tandem::bench::require(at != MAP_FAILED, "mmap");
    lines& over = *new (at) lines{};
    return tandem::bench::fork_ranks(
        2, [&](int rank) { return rank == 0 ? initiate(over) : respond(over); });
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 2;
  }
}
