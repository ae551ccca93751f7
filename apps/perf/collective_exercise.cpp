#include <optional>
#include <tandem/collectives.hpp>
#include <utility>

#include "perf/checked_data.hpp"
#include "perf/exercise.hpp"
#include "perf/options.hpp"

namespace tandem::perf {

namespace {

using clock = std::chrono::steady_clock;

class collective_exercise : public exercise {
 public:
  collective_exercise(communicator& comm, const perf_options& o, const collective_params& mine,
                      memory_location at)
      : comm_(comm),
        collective_(*collective_of(*o.op)),
        algorithm_(o.how),
        type_(o.type),
        reduction_(o.reduction, terms::factor),
        data_(make_data(*o.op, mine), at) {}

  void prepare(std::uint64_t epoch) override { data_.prepare(epoch); }
  asio::awaitable<void> iterate(std::uint64_t epoch, std::int64_t count,
                                std::vector<double>& samples_us) override {
    for (std::int64_t i = 0; i < count; ++i) {
      data_.before(epoch, i, i + 1 == count);
      const clock::time_point start = clock::now();
      co_await call();
      samples_us.push_back(micros_since(start));
      wrong += data_.after(epoch, i);
    }
  }
  std::uint64_t wrong_bytes(std::uint64_t epoch, std::int64_t last_iteration) override {
    return data_.wrong_bytes(epoch, last_iteration);
  }

 private:
  /// Not a coroutine, so that a call costs no additional coroutine frame.
  asio::awaitable<void> call() {
    constexpr int root = 0;
    const mutable_view in = data_.input();
    const mutable_view out = data_.output();
    const mutable_view from_root = comm_.rank() == root ? in : out;
    switch (collective_) {
      case collective::broadcast:
        return broadcast(comm_, from_root, root, algorithm_);
      case collective::all_reduce:
        return all_reduce(comm_, out, type_, reduction_, algorithm_);
      case collective::reduce:
        return reduce(comm_, in, out, type_, reduction_, root, algorithm_);
      case collective::all_gather:
        return all_gather(comm_, in, out, algorithm_);
      case collective::reduce_scatter:
        return reduce_scatter(comm_, in, out, type_, reduction_, algorithm_);
      case collective::gather:
        return gather(comm_, in, out, root, algorithm_);
      case collective::scatter:
        return scatter(comm_, in, out, root, algorithm_);
      case collective::all_to_all:
        return all_to_all(comm_, in, out, algorithm_);
      case collective::barrier:
        break;
    }
    return barrier(comm_);
  }

  communicator& comm_;
  collective collective_;
  algorithm algorithm_;
  data_type type_;
  reduction reduction_;
  checked_data data_;
};

}  // namespace

bool supports_islands(const operation& op) noexcept {
  const std::optional<collective> what = collective_of(op);
  return what == collective::all_reduce || what == collective::broadcast ||
         what == collective::reduce || what == collective::all_gather ||
         what == collective::reduce_scatter || what == collective::all_to_all;
}

std::unique_ptr<exercise> make_collective(communicator& comm, const perf_options& o,
                                          const collective_params& mine, memory_location at) {
  return std::make_unique<collective_exercise>(comm, o, mine, at);
}

}  // namespace tandem::perf
