#include "perf/exercise.hpp"

#include <tandem/collectives/collectives.hpp>

#include "perf/window.hpp"

namespace tandem::perf {

namespace {

using clock = std::chrono::steady_clock;

/// Sums in place would grow without bound, so all iterations but the last reduce zeros, whose sum a
/// stray byte would spoil; the last one reduces numbers that are checked one by one.
class all_reduce_exercise : public exercise {
 public:
  all_reduce_exercise(communicator& among, std::size_t bytes)
      : among_(among), zeros_(bytes / sizeof(float)), terms_(zeros_.size()) {}
  void prepare(std::uint64_t epoch) override { fill_terms(terms_, among_.rank(), epoch); }
  asio::awaitable<void> iterate(std::uint64_t, std::int64_t count,
                                std::vector<double>& samples_us) override {
    for (std::int64_t i = 0; i < count; ++i) {
      const mutable_view data = i + 1 == count ? terms_ : zeros_;
      const clock::time_point start = clock::now();
      co_await all_reduce(among_, data, data_type::float32, reduce_op::sum);
      samples_us.push_back(micros_since(start));
    }
  }
  std::uint64_t wrong_bytes(std::uint64_t epoch, std::int64_t) override {
    return wrong_sums(terms_, among_.size(), epoch) + wrong_zeros(zeros_);
  }

 private:
  communicator& among_;
  std::vector<float> zeros_, terms_;
};

class broadcast_exercise : public exercise {
 public:
  broadcast_exercise(communicator& among, std::size_t bytes) : among_(among), data_(0, 1, bytes) {}
  void prepare(std::uint64_t epoch) override {
    if (among_.rank() == 0)
      data_.fill(epoch, 0);
    else
      data_.clear();
  }
  asio::awaitable<void> iterate(std::uint64_t epoch, std::int64_t count,
                                std::vector<double>& samples_us) override {
    const mutable_view data(data_.messages()[0]);
    for (std::int64_t i = 0; i < count; ++i) {
      if (among_.rank() == 0) data_.mark(epoch, i);
      const clock::time_point start = clock::now();
      co_await broadcast(among_, data, 0);
      samples_us.push_back(micros_since(start));
      wrong += data_.wrong_marks(epoch, i);
    }
  }
  std::uint64_t wrong_bytes(std::uint64_t epoch, std::int64_t last_iteration) override {
    return data_.wrong_bytes(epoch, last_iteration);
  }

 private:
  communicator& among_;
  window data_;
};

class barrier_exercise : public exercise {
 public:
  explicit barrier_exercise(communicator& among) : among_(among) {}
  void prepare(std::uint64_t) override {}
  asio::awaitable<void> iterate(std::uint64_t, std::int64_t count,
                                std::vector<double>& samples_us) override {
    for (std::int64_t i = 0; i < count; ++i) {
      const clock::time_point start = clock::now();
      co_await barrier(among_);
      samples_us.push_back(micros_since(start));
    }
  }
  std::uint64_t wrong_bytes(std::uint64_t, std::int64_t) override { return 0; }

 private:
  communicator& among_;
};

class idle_exercise : public exercise {
 public:
  void prepare(std::uint64_t) override {}
  asio::awaitable<void> iterate(std::uint64_t, std::int64_t, std::vector<double>&) override {
    co_return;
  }
  std::uint64_t wrong_bytes(std::uint64_t, std::int64_t) override { return 0; }
};

}  // namespace

std::unique_ptr<exercise> make_collective(communicator& among, const perf_options& o,
                                          std::size_t bytes) {
  if (o.op == "allreduce") return std::make_unique<all_reduce_exercise>(among, bytes);
  if (o.op == "broadcast") return std::make_unique<broadcast_exercise>(among, bytes);
  return std::make_unique<barrier_exercise>(among);
}

std::unique_ptr<exercise> make_idle() {
  return std::make_unique<idle_exercise>();
}

}  // namespace tandem::perf
