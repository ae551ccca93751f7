// The reduction loops of the collectives, by instruction set, compared with the memory bandwidth.
// One core; prints one record per loop, whose channel is the instruction set.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <tandem/memory.hpp>
#include <vector>

#include "perf/record.hpp"
#include "reduce/kernels.hpp"

namespace tandem::bench {
namespace {

using clock = std::chrono::steady_clock;

/// Larger than any cache, and smaller than the L2 cache of a core.
constexpr std::size_t lengths[] = {std::size_t{64} << 20, std::size_t{256} << 10};
/// Maximum takes as long as minimum, and all bit operations take equally long.
constexpr reduce_op ops[] = {reduce_op::sum, reduce_op::product, reduce_op::minimum,
                             reduce_op::bxor};
constexpr double min_us = 10'000;
/// Calls shorter than this are timed in batches.
constexpr double short_us = 200;

std::size_t at(reduce_op op) {
  return static_cast<std::size_t>(op);
}

struct measured {
  std::string_view what, type, instructions;
  std::size_t bytes;
  std::uint64_t wrong_bytes = 0;
};

void measure(const measured& of, const std::function<void()>& call) {
  const auto timed_us = [&call](int times) {
    const clock::time_point start = clock::now();
    for (int i = 0; i < times; ++i) call();
    return std::chrono::duration<double, std::micro>(clock::now() - start).count() / times;
  };
  call();
  const double first_us = timed_us(1);
  const int calls_per_sample = std::max(1, static_cast<int>(short_us / first_us));
  const int samples = std::max(3, static_cast<int>(min_us / first_us / calls_per_sample));
  std::vector<double> samples_us;
  for (int i = 0; i < samples; ++i) samples_us.push_back(timed_us(calls_per_sample));
  perf::record line;
  line.op = "reduction";
  line.channel = of.instructions;
  line.ranks = 1;
  line.bytes = of.bytes;
  line.iters = std::int64_t{samples} * calls_per_sample;
  line.wrong_bytes = of.wrong_bytes;
  const double mean_us = perf::mean_of(samples_us);
  line.time_us = perf::summarize(std::move(samples_us), mean_us);
  line.settings = {{"what", std::string(of.what)}};
  if (!of.type.empty()) line.settings.emplace_back("type", of.type);
  if (const char* const commit = std::getenv("BENCH_COMMIT")) line.commit = commit;
  std::printf("%s\n", line.json().c_str());
  std::fflush(stdout);
}

/// Memory bandwidth: the C library's copy, and compiled loops that read one stream, and that read
/// two and write one of them.
void measure_memory(const buffer& a, const buffer& b, std::size_t bytes) {
  measure({"copy", "", "memory", bytes}, [&] { std::memcpy(a.data(), b.data(), bytes); });
  const std::size_t count = bytes / sizeof(std::uint64_t);
  const auto* const from = b.as<std::uint64_t>().data();
  measure({"read", "", "memory", bytes}, [&] {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += from[i];
    asm volatile("" ::"r"(sum));
  });
  auto* const into = a.as<std::uint64_t>().data();
  measure({"update", "", "memory", bytes}, [&] {
    for (std::size_t i = 0; i < count; ++i) into[i] ^= from[i];
  });
}

/// Values of the type that neither overflow nor become subnormal.
void fill(const buffer& data, data_type type) {
  std::uint64_t one = 1;
  if (type == data_type::float32) one = 0x3f800000;
  if (type == data_type::float64) one = 0x3ff0000000000000;
  if (type == data_type::float16) one = 0x3c00;
  if (type == data_type::bfloat16) one = 0x3f80;
  if (type == data_type::float8_e4m3) one = 0x38;
  if (type == data_type::float8_e5m2) one = 0x3c;
  std::memcpy(data.data(), &one, bytes_of(type));
  for (std::size_t done = bytes_of(type); done < data.size(); done *= 2) {
    std::memcpy(data.data() + done, data.data(), done);
  }
}

/// Runs random bits through this kernel and the portable one; returns the number of differing
/// bytes.
std::uint64_t differing_bytes(detail::combine_kernel kernel, detail::combine_kernel portable,
                              std::size_t element_bytes) {
  constexpr std::size_t bytes = 80'000;
  static const auto random = [] {
    std::vector<std::uint64_t> words(2 * bytes / sizeof(std::uint64_t));
    std::generate(words.begin(), words.end(), std::mt19937_64(1));
    return words;
  }();
  const auto* const a = reinterpret_cast<const std::byte*>(random.data());
  const buffer one(bytes), other(bytes);
  kernel(one.data(), a, a + bytes, bytes / element_bytes);
  portable(other.data(), a, a + bytes, bytes / element_bytes);
  std::uint64_t differing = 0;
  for (std::size_t i = 0; i < bytes; ++i) differing += one.data()[i] != other.data()[i] ? 1 : 0;
  return differing;
}

/// Returns false if a kernel gave a wrong result.
bool measure_type(data_type type, const buffer& a, const buffer& b, std::size_t bytes) {
  const std::size_t element_bytes = bytes_of(type);
  const std::size_t count = bytes / element_bytes;
  const auto row = static_cast<std::size_t>(type);
  bool right = true;
  for (const reduce_op what : ops) {
    if (!is_defined(type, what)) continue;
    for (const detail::instruction_set set : detail::instruction_sets) {
      const detail::kernel_table* const table = detail::kernels_for(set);
      if (table == nullptr) continue;
      const detail::combine_kernel kernel = table->combine[row][at(what)];
      const std::uint64_t wrong =
          differing_bytes(kernel, detail::portable_kernels.combine[row][at(what)], element_bytes);
      right = right && wrong == 0;
      measure({name(what), name(type), name(set), bytes, wrong},
              [&] { kernel(a.data(), a.data(), b.data(), count); });
    }
  }
  for (const detail::instruction_set set : detail::instruction_sets) {
    const detail::kernel_table* const table = detail::kernels_for(set);
    if (table == nullptr) continue;
    measure({"multiply", name(type), name(set), bytes},
            [&] { table->multiply[row](a.data(), a.data(), count, 1); });
    measure({"divide", name(type), name(set), bytes},
            [&] { table->divide[row](a.data(), a.data(), count, 1); });
  }
  return right;
}

}  // namespace
}  // namespace tandem::bench

int main() {
  using namespace tandem;
  const buffer a(bench::lengths[0]), b(bench::lengths[0]);
  bool right = true;
  for (const std::size_t bytes : bench::lengths) {
    for (std::size_t type = 0; type < detail::data_type_count; ++type) {
      bench::fill(a, static_cast<data_type>(type));
      bench::fill(b, static_cast<data_type>(type));
      bench::measure_memory(a, b, bytes);
      right = bench::measure_type(static_cast<data_type>(type), a, b, bytes) && right;
    }
  }
  return right ? 0 : 1;
}
