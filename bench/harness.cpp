#include "harness.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "exercise.hpp"
#include "perf/operation.hpp"
#include "perf/record.hpp"

namespace tandem::bench {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint64_t timed_epoch = 100;

double micros_since(clock::time_point start) {
  return std::chrono::duration<double, std::micro>(clock::now() - start).count();
}

void run_checked(exercise& one, std::uint64_t first, int count) {
  for (std::uint64_t epoch = first; epoch < first + count; ++epoch) {
    one.prepare(epoch, epoch);
    one.before(epoch, epoch, true);
    one.iterate(epoch, epoch);
    one.after(epoch, epoch);
    one.wrong += one.wrong_bytes(epoch, epoch);
  }
}

/// Collects times and wrong bytes of all ranks on rank 0: the longest time of each iteration, and
/// the longest mean.
perf::times_us collect(endpoint& at, std::vector<double> samples, std::uint64_t& wrong,
                       bool merge) {
  const std::size_t iterations = samples.size();
  samples.push_back(perf::mean_of(samples));
  std::vector<double> sent = samples;
  sent.push_back(static_cast<double>(wrong));
  const std::vector<message> one{std::as_writable_bytes(std::span(sent))};
  if (at.rank() != 0) {
    at.send(0, one);
    return {};
  }
  for (int from = 1; from < at.size(); ++from) {
    at.recv(from, one);
    wrong += static_cast<std::uint64_t>(sent.back());
    for (std::size_t i = 0; merge && i < samples.size(); ++i) {
      samples[i] = std::max(samples[i], sent[i]);
    }
  }
  const double longest_mean_us = samples.back();
  samples.resize(iterations);
  return perf::summarize(std::move(samples), longest_mean_us);
}

}  // namespace

void endpoint::barrier() {
  std::byte byte{};
  const std::vector<message> one{{&byte, 1}};
  if (rank() != 0) {
    send(0, one);
    return recv(0, one);
  }
  for (int from = 1; from < size(); ++from) recv(from, one);
  for (int to = 1; to < size(); ++to) send(to, one);
}

void endpoint::broadcast(std::span<std::byte>, int) {
  throw std::invalid_argument(channel() + " has no broadcast");
}

void endpoint::all_reduce(std::span<float>) {
  throw std::invalid_argument(channel() + " has no allreduce");
}

void endpoint::all_gather(std::span<std::byte>, std::span<std::byte>) {
  throw std::invalid_argument(channel() + " has no allgather");
}

void endpoint::reduce_scatter(std::span<float>, std::span<float>) {
  throw std::invalid_argument(channel() + " has no reducescatter");
}

void endpoint::all_to_all(std::span<std::byte>, std::span<std::byte>) {
  throw std::invalid_argument(channel() + " has no alltoall");
}

int measure(endpoint& at, const plan& what) {
  const bool pair = what.op == "pingpong" || what.op == "oneway";
  if (pair && at.size() != 2) throw std::invalid_argument(what.op + " is for 2 ranks");
  std::uint64_t total_wrong = 0;
  for (const measurement& of : what.measurements) {
    const perf::operation& op = *perf::find_operation(what.op);
    const std::size_t element_bytes = op.reduces ? sizeof(float) : 1;
    const std::size_t bytes = perf::bytes_moved(op, of.bytes, at.size(), element_bytes);
    const std::unique_ptr<exercise> one = make_exercise(at, what, bytes);
    run_checked(*one, 0, 3);
    one->prepare(timed_epoch, 0);
    for (std::int64_t i = 0; i < std::min(what.warmup, of.iters); ++i) {
      one->before(timed_epoch, i, false);
      one->iterate(timed_epoch, i);
    }
    at.barrier();
    std::vector<double> samples(of.iters);
    for (std::int64_t i = 0; i < of.iters; ++i) {
      one->before(timed_epoch, i, i + 1 == of.iters);
      const clock::time_point start = clock::now();
      one->iterate(timed_epoch, i);
      samples[i] = micros_since(start) / one->iterations_per_sample();
      one->after(timed_epoch, i);
    }
    one->wrong += one->wrong_bytes(timed_epoch, of.iters - 1);
    run_checked(*one, timed_epoch + 1, 2);
    const perf::times_us times = collect(at, std::move(samples), one->wrong, !pair);
    if (at.rank() == 0) {
      print_times(what, {bytes, of.iters}, at.channel(), times, one->wrong);
    }
    total_wrong += one->wrong;
    at.barrier();
  }
  return total_wrong == 0 ? 0 : 1;
}

void print_record(const plan& what, const measurement& of, const std::string& channel,
                  std::vector<double> samples_us, std::uint64_t wrong_bytes) {
  const double mean_us = perf::mean_of(samples_us);
  print_times(what, of, channel, perf::summarize(std::move(samples_us), mean_us), wrong_bytes);
}

void print_times(const plan& what, const measurement& of, const std::string& channel,
                 const perf::times_us& times, std::uint64_t wrong_bytes) {
  perf::record line;
  line.op = what.op;
  line.channel = channel;
  line.ranks = what.ranks;
  line.bytes = of.bytes;
  line.depth = what.depth;
  line.iters = of.iters;
  line.wrong_bytes = wrong_bytes;
  line.time_us = times;
  if (const char* commit = std::getenv("BENCH_COMMIT")) line.commit = commit;
  std::printf("%s\n", line.json().c_str());
  std::fflush(stdout);
}

}  // namespace tandem::bench
