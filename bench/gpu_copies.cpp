// Throughput of copies between two devices by submission: single copies on several streams, or
// several copies per call, submitted by the source device (--mode write) or by the destination
// device (--mode read). One process, no protocol: a stream gets new copies as soon as it is idle.
//
// Completion is a word that the stream writes after its copies, as for the library's peer copies.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tandem/accelerator.hpp>

#include "harness.hpp"
#include "perf/aligned_memory.hpp"
#include "perf/device_mirror.hpp"
#include "perf/pattern.hpp"

namespace {

using tandem::accelerator;
using tandem::memory_kind;
namespace perf = tandem::perf;
using clock_type = std::chrono::steady_clock;
using micros = std::chrono::duration<double, std::micro>;

constexpr int copies = 64;  // per sample
constexpr std::size_t line_bytes = 64;

struct shape {
  int streams;
  int batch;
};
constexpr std::array<shape, 7> shapes{{{1, 1}, {2, 1}, {3, 1}, {2, 2}, {2, 4}, {3, 4}, {1, 8}}};

struct sample {
  double us;         ///< from the first call to the last completion word
  double submit_us;  ///< time in driver calls, per copy
};

/// Streams that repeatedly copy between the same buffers.
class copying {
 public:
  copying(accelerator& by, shape how, tandem::mutable_view to, tandem::const_view from,
          std::size_t bytes)
      : by_(by), how_(how), words_(by, line_bytes * static_cast<std::size_t>(how.streams)) {
    std::memset(words_.data(), 0, words_.size());
    std::size_t at = 0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(how.streams); ++s) {
      copy_stream& made = streams_.emplace_back();
      made.on = tandem::device_stream(by);
      made.word = words_.data() + s * line_bytes;
      made.device_word = by.device_pointer(made.word);
      for (int k = 0; k < how.batch; ++k, at += bytes) {
        made.pieces.push_back({to.part(at, bytes).data, from.part(at, bytes).data, bytes});
      }
    }
  }

  sample run() {
    int submitted = 0;
    std::chrono::nanoseconds submit_time{0};
    const clock_type::time_point start = clock_type::now();
    for (int busy = 1; busy > 0;) {
      busy = 0;
      for (copy_stream& each : streams_) {
        if (!is_done(each)) {
          ++busy;
        } else if (submitted < copies) {
          const clock_type::time_point before = clock_type::now();
          submit(each);
          submit_time += clock_type::now() - before;
          submitted += how_.batch;
          ++busy;
        }
      }
    }
    const micros took = clock_type::now() - start;
    return {took.count(), micros(submit_time).count() / submitted};
  }

 private:
  struct copy_stream {
    tandem::device_stream on;
    std::vector<accelerator::piece> pieces;
    std::byte* word = nullptr;
    void* device_word = nullptr;  // device address of `word`
    std::uint32_t expected = 0;
  };
  static bool is_done(const copy_stream& l) {
    const std::atomic_ref<std::uint32_t> value(*reinterpret_cast<std::uint32_t*>(l.word));
    return value.load(std::memory_order_acquire) == l.expected;
  }
  void submit(copy_stream& l) {
    if (how_.batch > 1) {
      by_.copy_all(l.pieces, l.on.get());
    } else {
      by_.copy(l.pieces[0].to, l.pieces[0].from, l.pieces[0].bytes, l.on.get());
    }
    by_.write_value(l.on.get(), l.device_word, ++l.expected);
  }

  accelerator& by_;
  const shape how_;
  tandem::pinned_buffer words_;
  std::vector<copy_stream> streams_;
};

std::uint64_t run_size(const tandem::bench::plan& what, const tandem::bench::measurement& of) {
  const bool writes = what.mode == "write";
  if (!writes && what.mode != "read") throw std::runtime_error("--mode is write or read");
  accelerator& by = tandem::accelerator_at(memory_kind::cuda, 0);
  if (!by.can_access_peer(1)) throw std::runtime_error("cuda:0 does not reach cuda:1");
  by.enable_peer_access(1);
  std::uint64_t total_wrong = 0;
  for (const shape& how : shapes) {
    const std::size_t all = of.bytes * static_cast<std::size_t>(how.streams * how.batch);
    const perf::aligned_memory sent(all), received(all);
    perf::fill(sent.bytes(), {0, 0, all}, 0);
    perf::device_mirror local_memory({memory_kind::cuda, 0}), remote_memory({memory_kind::cuda, 1});
    perf::device_mirror& from = writes ? local_memory : remote_memory;
    perf::device_mirror& into = writes ? remote_memory : local_memory;
    copying between(by, how, into.of(received.bytes()), from.of(sent.bytes()), of.bytes);
    std::vector<double> samples, submit_time;
    for (std::int64_t i = 0; i < what.warmup + of.iters; ++i) {
      const sample took = between.run();
      if (i < what.warmup) continue;
      samples.push_back(took.us);
      submit_time.push_back(took.submit_us);
    }
    into.download();
    const std::uint64_t wrong = perf::wrong_bytes(received.bytes(), {0, 0, all}, 0);
    total_wrong += wrong;

    tandem::bench::plan per_sample = what;
    per_sample.depth = copies;
    const std::string name = std::to_string(how.streams) + "x" + std::to_string(how.batch);
    tandem::bench::print_record(per_sample, of, name, samples, wrong);
    tandem::bench::print_record(per_sample, of, name + " asking", submit_time, wrong);
  }
  return total_wrong;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const tandem::bench::plan what = tandem::bench::parse_plan(argc, argv);
    std::uint64_t wrong = 0;
    for (const tandem::bench::measurement& of : what.measurements) wrong += run_size(what, of);
    return wrong == 0 ? 0 : 1;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "gpu_copies: %s\n", failure.what());
    return 2;
  }
}
