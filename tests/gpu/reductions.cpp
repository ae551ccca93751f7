// Kernels on a real device compared bitwise with the CPU's; prints their throughput.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <tandem/accelerator.hpp>

#include "collectives/nan_cases.hpp"
#include "collectives/slow.hpp"
#include "reduce/device_kernels.hpp"

namespace tandem::detail {
namespace {

using memory = std::vector<std::byte>;

/// Random bits, a third of them special numbers, and pairs of close numbers.
memory operands(data_type type, std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<test::element> elements(count);
  const std::vector<test::element> special = test::special_elements(type);
  for (std::size_t i = 0; i < count; ++i) {
    elements[i] = i % 3 == seed % 3 ? special[random() % special.size()] : random();
  }
  return test::packed(type, elements);
}

class OnGpu : public testing::TestWithParam<memory_kind> {
 protected:
  void SetUp() override {
    const accelerators here = find_accelerators(GetParam());
    if (here.found.empty()) GTEST_SKIP() << here.why_none;
    on = here.found[0];
    kernels = device_kernels::of(*on);
    stream = device_stream(*on);
  }

  buffer on_device(std::size_t bytes) const { return buffer(bytes, on->kind(), on->device()); }
  void copy(void* to, const void* from, std::size_t bytes) const {
    const pinned_buffer pinned(*on, bytes);
    if (bytes == 0) return;
    const bool is_read = on->owns(from);
    if (!is_read) std::memcpy(pinned.data(), from, bytes);
    on->copy(is_read ? pinned.data() : to, is_read ? from : pinned.data(), bytes, stream.get());
    on->finish(stream.get());
    if (is_read) std::memcpy(to, pinned.data(), bytes);
  }

  accelerator* on = nullptr;
  std::shared_ptr<device_kernels> kernels;
  device_stream stream;
};

constexpr std::size_t counts[] = {0, 1, 7, 8, 1023, (1 << 20) + 3};

TEST_P(OnGpu, CombineAsTheProcessorDoes) {
  constexpr std::size_t max_count = (1 << 20) + 16;
  for (const data_type type : test::all_types) {
    const std::size_t each = bytes_of(type);
    const memory a = operands(type, max_count, 1), b = operands(type, max_count, 2);
    const buffer there_a = on_device(max_count * each), there_b = on_device(max_count * each);
    const buffer there = on_device(max_count * each);
    copy(there_a.data(), a.data(), a.size());
    copy(there_b.data(), b.data(), b.size());
    for (const reduce_op op : test::all_ops) {
      if (!is_defined(type, op)) continue;
      for (const std::size_t count : counts) {
        // Aligned to 16 bytes, to single elements, and each differently.
        for (const auto& [skip_a, skip_into] : {std::pair{0U, 0U}, {1U, 1U}, {1U, 0U}}) {
          SCOPED_TRACE(fmt::format("{} of {} {}, {} and {} left out", name(op), count, name(type),
                                   skip_a, skip_into));
          memory expected(max_count * each, std::byte{0x5a}), got = expected;
          copy(there.data(), expected.data(), expected.size());
          const std::size_t from = skip_a * each, to = skip_into * each;
          portable_kernels.combine[static_cast<std::size_t>(type)][static_cast<std::size_t>(op)](
              expected.data() + to, a.data() + from, b.data() + from, count);
          kernels->combine(type, work_of(op), there.data() + to, there_a.data() + from,
                           there_b.data() + from, count, stream.get());
          copy(got.data(), there.data(), got.size());
          ASSERT_TRUE(got == expected);
          if (count > 1023 && op != reduce_op::sum) break;
        }
      }
    }
  }
}

/// NaNs of every kind with each other, with numbers, infinities and zeros, in either order, aligned
/// and unaligned; expected bits are constants.
TEST_P(OnGpu, PreserveNanAndZeroSignInMinimum) {
  for (const data_type type : test::floating_types) {
    const test::float_patterns of = test::patterns_of(type);
    std::vector<test::element> some{
        0, of.sign, of.one, of.one | of.sign, of.greatest, of.greatest | of.sign, 1, 1 | of.sign};
    some.insert(some.end(), of.nans.begin(), of.nans.end());
    for (const reduce_op op : test::extremes) {
      SCOPED_TRACE(fmt::format("{} of {}", name(op), name(type)));
      std::vector<test::element> a{0}, b{0}, wanted{0};
      for (const test::element x : some) {
        for (const test::element y : some) {
          const bool takes_x = (of.key(x) < of.key(y)) == (op == reduce_op::minimum);
          a.push_back(x);
          b.push_back(y);
          wanted.push_back(of.is_nan(x) || of.is_nan(y) ? of.nans[0] : takes_x ? x : y);
        }
      }
      for (const std::size_t skipped : {0U, 1U}) {
        const memory first = test::packed(type, a), second = test::packed(type, b);
        const buffer there_a = on_device(first.size()), there_b = on_device(first.size());
        copy(there_a.data(), first.data(), first.size());
        copy(there_b.data(), second.data(), second.size());
        const std::size_t skip = skipped * bytes_of(type);
        kernels->combine(type, work_of(op), there_a.data() + skip, there_a.data() + skip,
                         there_b.data() + skip, a.size() - skipped, stream.get());
        memory got(first.size());
        copy(got.data(), there_a.data(), got.size());
        ASSERT_EQ(test::unpacked(type, got.data(), a.size()), wanted);
      }
    }
  }
}

TEST_P(OnGpu, CombineInPlaceAsTheProcessorDoes) {
  constexpr std::size_t count = 100'003;
  for (const data_type type : test::all_types) {
    SCOPED_TRACE(name(type));
    const memory a = operands(type, count, 3), b = operands(type, count, 4);
    const auto combine = portable_kernels.combine[static_cast<std::size_t>(type)][0];
    for (const bool into_a : {true, false}) {
      memory first = a, second = b, got(a.size());
      const buffer there_a = on_device(a.size()), there_b = on_device(b.size());
      copy(there_a.data(), a.data(), a.size());
      copy(there_b.data(), b.data(), b.size());
      combine(into_a ? first.data() : second.data(), first.data(), second.data(), count);
      std::byte* const into = into_a ? there_a.data() : there_b.data();
      kernels->combine(type, kernel_work::sum, into, there_a.data(), there_b.data(), count,
                       stream.get());
      copy(got.data(), into, got.size());
      ASSERT_TRUE(got == (into_a ? first : second));
    }
  }
}

TEST_P(OnGpu, ScaleAsTheProcessorDoes) {
  for (const data_type type : test::all_types) {
    const auto at = static_cast<std::size_t>(type);
    const std::size_t max_count = counts[5] + 1;
    const memory from = operands(type, max_count, 5);
    const buffer there = on_device(from.size());
    for (const std::size_t count : counts) {
      for (const double by : {1.0, 3.0, 7.0, 100.0, 0.1}) {
        if (by < 1 && test::is_integer(type)) continue;
        for (const kernel_work work : {kernel_work::multiply, kernel_work::divide}) {
          if (by < 1 && work == kernel_work::divide) continue;
          SCOPED_TRACE(fmt::format("{} {}, {} {}", count, name(type), by, kernel_name(type, work)));
          const auto scale = work == kernel_work::multiply ? portable_kernels.multiply[at]
                                                           : portable_kernels.divide[at];
          memory expected = from, got = from;
          copy(there.data(), from.data(), from.size());
          scale(expected.data(), expected.data(), count, by);
          kernels->scale(type, work, there.data(), there.data(), count, by, stream.get());
          copy(got.data(), there.data(), got.size());
          ASSERT_TRUE(got == expected);
        }
      }
    }
  }
}

/// Rate of `times` operations queued at once, each moving this many bytes.
template <class Queue>
double gb_per_s(accelerator& on, accelerator::stream stream, std::size_t moved, Queue queue) {
  constexpr int times = 20;
  queue();
  on.finish(stream);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) queue();
  on.finish(stream);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(moved) * times / took.count() / 1e9;
}

/// Prints the throughput; does not check it.
TEST_P(OnGpu, PrintThroughput) {
  constexpr std::size_t length = std::size_t{256} << 20;
  const buffer a = on_device(length), b = on_device(length), into = on_device(length);
  const double copied = gb_per_s(*on, stream.get(), 2 * length,
                                 [&] { on->copy(into.data(), a.data(), length, stream.get()); });
  fmt::print("{}: copy of 256 MiB, read and written: {:.0f} GB/s\n", on->text(), copied);
  for (const data_type type : {data_type::float32, data_type::bfloat16, data_type::float16,
                               data_type::float8_e4m3, data_type::int8}) {
    for (const std::size_t skip : {std::size_t{0}, bytes_of(type)}) {
      const std::size_t count = (length - skip) / bytes_of(type);
      const double combined = gb_per_s(*on, stream.get(), 3 * length, [&] {
        kernels->combine(type, kernel_work::sum, into.data() + skip, a.data() + skip,
                         b.data() + skip, count, stream.get());
      });
      fmt::print("sum of {}{}: {:.0f} GB/s, {:.0f} GB/s of each operand, {:.2f} of the copy\n",
                 name(type), skip == 0 ? "" : ", not aligned", combined, combined / 3,
                 combined / copied);
      EXPECT_GT(combined, 0);
    }
  }
}

/// Duration of the compilation in a first call.
TEST_P(OnGpu, PrintCompilationTime) {
  const auto ms_of = [](auto what) {
    const auto begin = std::chrono::steady_clock::now();
    what();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    return took.count();
  };
  for (const data_type type : {data_type::float32, data_type::float8_e4m3}) {
    const double first = ms_of([&] { device_kernels(*on).prepare(type); });
    const double again = ms_of([&] { device_kernels(*on).prepare(type); });
    fmt::print("kernels of {}: {:.1f} ms, then {:.1f} ms\n", name(type), first, again);
    EXPECT_GT(first, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, OnGpu, testing::Values(memory_kind::cuda, memory_kind::hip),
                         [](const auto& of) { return std::string(name(of.param)); });

}  // namespace
}  // namespace tandem::detail
