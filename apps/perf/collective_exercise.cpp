#include <optional>
#include <tandem/collectives/collectives.hpp>
#include <utility>

#include "perf/choices.hpp"
#include "perf/exercise.hpp"

namespace tandem::perf {

namespace {

using clock = std::chrono::steady_clock;

class collective_exercise : public exercise {
 public:
  collective_exercise(communicator& among, const perf_options& o, const part& mine)
      : among_(among),
        what_(*collective_of(*o.op)),
        how_(o.how),
        type_(o.type),
        reduction_(o.reduction, terms::factor),
        data_(make_data(*o.op, mine)) {}

  void prepare(std::uint64_t epoch) override { data_->prepare(epoch); }
  asio::awaitable<void> iterate(std::uint64_t epoch, std::int64_t count,
                                std::vector<double>& samples_us) override {
    for (std::int64_t i = 0; i < count; ++i) {
      data_->before(epoch, i, i + 1 == count);
      const clock::time_point start = clock::now();
      co_await call();
      samples_us.push_back(micros_since(start));
      wrong += data_->after(epoch, i);
    }
  }
  std::uint64_t wrong_bytes(std::uint64_t epoch, std::int64_t last_iteration) override {
    return data_->wrong_bytes(epoch, last_iteration);
  }

 private:
  /// No coroutine itself: a call costs no frame but its own.
  asio::awaitable<void> call() {
    constexpr int root = 0;
    const const_view in(data_->input());
    const mutable_view out(data_->output());
    switch (what_) {
      case collective::broadcast:
        return broadcast(among_, among_.rank() == root ? mutable_view(data_->input()) : out, root,
                         how_);
      case collective::all_reduce:
        return all_reduce(among_, out, type_, reduction_, how_);
      case collective::reduce:
        return reduce(among_, in, out, type_, reduction_, root, how_);
      case collective::all_gather:
        return all_gather(among_, in, out, how_);
      case collective::reduce_scatter:
        return reduce_scatter(among_, in, out, type_, reduction_, how_);
      case collective::gather:
        return gather(among_, in, out, root, how_);
      case collective::scatter:
        return scatter(among_, in, out, root, how_);
      case collective::all_to_all:
        return all_to_all(among_, in, out, how_);
      case collective::barrier:
        break;
    }
    return barrier(among_);
  }

  communicator& among_;
  collective what_;
  algorithm how_;
  data_type type_;
  reduction reduction_;
  std::unique_ptr<collective_data> data_;
};

}  // namespace

std::unique_ptr<exercise> make_collective(communicator& among, const perf_options& o,
                                          const part& mine) {
  return std::make_unique<collective_exercise>(among, o, mine);
}

}  // namespace tandem::perf
