#include "harness.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "perf/record.hpp"
#include "perf/window.hpp"

namespace tandem::bench {

namespace {

using clock = std::chrono::steady_clock;
using perf::window;

constexpr std::uint64_t timed_epoch = 100;

double micros_since(clock::time_point start) {
  return std::chrono::duration<double, std::micro>(clock::now() - start).count();
}

/// One kind of measurement on one rank: an iteration, and what is checked of it.
class exercise {
 public:
  virtual ~exercise() = default;
  virtual void prepare(std::uint64_t epoch, std::uint64_t iteration) = 0;
  virtual void iterate(std::uint64_t epoch, std::uint64_t iteration) = 0;
  virtual std::uint64_t wrong_bytes(std::uint64_t epoch, std::uint64_t iteration) = 0;
  virtual double iterations_of_time() const { return 1; }  ///< what a sample is divided by
  virtual void before_last() {}  ///< the next timed iteration is the one that is checked in full
  std::uint64_t wrong = 0;       ///< found while iterating
};

/// pingpong and oneway: windows of messages between ranks 0 and 1.
class point_to_point : public exercise {
 public:
  point_to_point(endpoint& at, const plan& what, std::size_t bytes)
      : at_(at),
        echo_(what.op == "pingpong"),
        peer_(1 - at.rank()),
        out_(at.rank(), depth_out(what), echo_ ? bytes : bytes_out(bytes)),
        in_(peer_, depth_in(what), echo_ ? bytes : bytes_in(bytes)) {}

  void prepare(std::uint64_t epoch, std::uint64_t iteration) override {
    out_.fill(epoch, iteration);
    in_.clear();
  }
  void iterate(std::uint64_t epoch, std::uint64_t iteration) override {
    if (at_.rank() != 0) at_.recv(peer_, in_.messages());
    out_.mark(epoch, iteration);
    at_.send(peer_, out_.messages());
    if (at_.rank() == 0) at_.recv(peer_, in_.messages());
    wrong += in_.wrong_marks(epoch, iteration);
  }
  std::uint64_t wrong_bytes(std::uint64_t epoch, std::uint64_t iteration) override {
    return in_.wrong_bytes(epoch, iteration);
  }
  double iterations_of_time() const override { return echo_ ? 2 : 1; }

 private:
  static constexpr std::size_t acknowledgement_bytes = 8;
  int depth_out(const plan& p) const { return echo_ || at_.rank() == 0 ? p.depth : 1; }
  int depth_in(const plan& p) const { return echo_ || at_.rank() != 0 ? p.depth : 1; }
  std::size_t bytes_out(std::size_t n) const { return at_.rank() == 0 ? n : acknowledgement_bytes; }
  std::size_t bytes_in(std::size_t n) const { return at_.rank() != 0 ? n : acknowledgement_bytes; }

  endpoint& at_;
  bool echo_;
  int peer_;
  window out_, in_;
};

class all_reduce : public exercise {
 public:
  all_reduce(endpoint& at, std::size_t bytes)
      : at_(at),
        zeros_(std::max<std::size_t>(bytes / 4, 1)),
        terms_(zeros_.size()),
        now_(&zeros_) {}
  void prepare(std::uint64_t epoch, std::uint64_t) override {
    perf::fill_terms(terms_, at_.rank(), epoch);
    now_ = epoch == timed_epoch ? &zeros_ : &terms_;
  }
  void before_last() override { now_ = &terms_; }
  void iterate(std::uint64_t, std::uint64_t) override { at_.all_reduce(*now_); }
  std::uint64_t wrong_bytes(std::uint64_t epoch, std::uint64_t) override {
    return perf::wrong_sums(terms_, at_.size(), epoch) + perf::wrong_zeros(zeros_);
  }

 private:
  endpoint& at_;
  std::vector<float> zeros_, terms_;
  std::vector<float>* now_;
};

class broadcast : public exercise {
 public:
  broadcast(endpoint& at, std::size_t bytes) : at_(at), data_(0, 1, bytes) {}
  void prepare(std::uint64_t epoch, std::uint64_t iteration) override {
    if (at_.rank() == 0)
      data_.fill(epoch, iteration);
    else
      data_.clear();
  }
  void iterate(std::uint64_t epoch, std::uint64_t iteration) override {
    if (at_.rank() == 0) data_.mark(epoch, iteration);
    at_.broadcast(data_.messages()[0], 0);
    wrong += data_.wrong_marks(epoch, iteration);
  }
  std::uint64_t wrong_bytes(std::uint64_t epoch, std::uint64_t iteration) override {
    return data_.wrong_bytes(epoch, iteration);
  }

 private:
  endpoint& at_;
  window data_;
};

class barrier : public exercise {
 public:
  explicit barrier(endpoint& at) : at_(at) {}
  void prepare(std::uint64_t, std::uint64_t) override {}
  void iterate(std::uint64_t, std::uint64_t) override { at_.barrier(); }
  std::uint64_t wrong_bytes(std::uint64_t, std::uint64_t) override { return 0; }

 private:
  endpoint& at_;
};

std::unique_ptr<exercise> make_exercise(endpoint& at, const plan& what, std::size_t bytes) {
  if (what.op == "allreduce") return std::make_unique<all_reduce>(at, bytes);
  if (what.op == "broadcast") return std::make_unique<broadcast>(at, bytes);
  if (what.op == "barrier") return std::make_unique<barrier>(at);
  return std::make_unique<point_to_point>(at, what, bytes);
}

void run_checked(exercise& one, std::uint64_t first, int count) {
  for (std::uint64_t epoch = first; epoch < first + count; ++epoch) {
    one.prepare(epoch, epoch);
    one.iterate(epoch, epoch);
    one.wrong += one.wrong_bytes(epoch, epoch);
  }
}

/// Brings samples and wrong bytes of all ranks to rank 0: of each iteration the longest time.
void collect(endpoint& at, std::vector<double>& samples, std::uint64_t& wrong, bool merge) {
  std::vector<double> sent = samples;
  sent.push_back(static_cast<double>(wrong));
  const std::vector<message> one{std::as_writable_bytes(std::span(sent))};
  if (at.rank() != 0) return at.send(0, one);
  for (int from = 1; from < at.size(); ++from) {
    at.recv(from, one);
    wrong += static_cast<std::uint64_t>(sent.back());
    for (std::size_t i = 0; merge && i < samples.size(); ++i) {
      samples[i] = std::max(samples[i], sent[i]);
    }
  }
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

int measure(endpoint& at, const plan& what) {
  const bool pair = what.op == "pingpong" || what.op == "oneway";
  if (pair && at.size() != 2) throw std::invalid_argument(what.op + " is for 2 ranks");
  std::uint64_t wrong_in_all = 0;
  for (const measurement& of : what.measurements) {
    const std::unique_ptr<exercise> one = make_exercise(at, what, of.bytes);
    run_checked(*one, 0, 3);
    one->prepare(timed_epoch, 0);
    for (std::int64_t i = 0; i < what.warmup; ++i) one->iterate(timed_epoch, i);
    at.barrier();
    std::vector<double> samples(of.iters);
    for (std::int64_t i = 0; i < of.iters; ++i) {
      if (i + 1 == of.iters) one->before_last();
      const clock::time_point start = clock::now();
      one->iterate(timed_epoch, i);
      samples[i] = micros_since(start) / one->iterations_of_time();
    }
    one->wrong += one->wrong_bytes(timed_epoch, of.iters - 1);
    run_checked(*one, timed_epoch + 1, 2);
    collect(at, samples, one->wrong, !pair);
    if (at.rank() == 0) print_record(what, of, at.channel(), std::move(samples), one->wrong);
    wrong_in_all += one->wrong;
    at.barrier();
  }
  return wrong_in_all == 0 ? 0 : 1;
}

void print_record(const plan& what, const measurement& of, const std::string& channel,
                  std::vector<double> samples_us, std::uint64_t wrong_bytes) {
  perf::record line;
  line.op = what.op;
  line.channel = channel;
  line.ranks = what.ranks;
  line.bytes = of.bytes;
  line.depth = what.depth;
  line.iters = of.iters;
  line.wrong_bytes = wrong_bytes;
  line.time_us = perf::summarize(std::move(samples_us));
  if (const char* commit = std::getenv("BENCH_COMMIT")) line.commit = commit;
  std::printf("%s\n", line.json().c_str());
  std::fflush(stdout);
}

}  // namespace tandem::bench
