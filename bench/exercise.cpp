#include "exercise.hpp"

#include <utility>

#include "perf/collective_data.hpp"
#include "perf/window.hpp"

namespace tandem::bench {

namespace {

using perf::window;

/// pingpong and oneway: windows of messages between ranks 0 and 1.
class point_to_point : public exercise {
 public:
  point_to_point(endpoint& at, const plan& what, std::size_t bytes)
      : at_(at),
        echo_(what.op == "pingpong"),
        peer_(1 - at.rank()),
        out_(at.rank(), {depth_out(what), echo_ ? bytes : bytes_out(bytes)}),
        in_(peer_, {depth_in(what), echo_ ? bytes : bytes_in(bytes)}) {}

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
  double iterations_per_sample() const override { return echo_ ? 2 : 1; }

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

std::span<float> floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

/// A collective call over all ranks; reductions are float32 sums.
class collective : public exercise {
 public:
  using call = void (*)(endpoint& at, perf::collective_data& data);

  collective(endpoint& at, std::unique_ptr<perf::collective_data> data, call run)
      : at_(at), data_(std::move(data)), run_(run) {}
  void prepare(std::uint64_t epoch, std::uint64_t) override { data_->prepare(epoch); }
  void before(std::uint64_t epoch, std::uint64_t iteration, bool last) override {
    data_->before(epoch, iteration, last);
  }
  void iterate(std::uint64_t, std::uint64_t) override { run_(at_, *data_); }
  void after(std::uint64_t epoch, std::uint64_t iteration) override {
    wrong += data_->after(epoch, iteration);
  }
  std::uint64_t wrong_bytes(std::uint64_t epoch, std::uint64_t iteration) override {
    return data_->wrong_bytes(epoch, iteration);
  }

 private:
  endpoint& at_;
  std::unique_ptr<perf::collective_data> data_;
  call run_;
};

using perf::collective_data;

collective::call call_of(const std::string& op) {
  if (op == "allreduce")
    return [](endpoint& at, collective_data& d) { at.all_reduce(floats(d.output())); };
  if (op == "broadcast")
    return [](endpoint& at, collective_data& d) {
      at.broadcast(at.rank() == 0 ? d.input() : d.output(), 0);
    };
  if (op == "allgather")
    return [](endpoint& at, collective_data& d) { at.all_gather(d.input(), d.output()); };
  if (op == "reducescatter")
    return [](endpoint& at, collective_data& d) {
      at.reduce_scatter(floats(d.input()), floats(d.output()));
    };
  if (op == "alltoall")
    return [](endpoint& at, collective_data& d) { at.all_to_all(d.input(), d.output()); };
  return [](endpoint& at, collective_data&) { at.barrier(); };
}

}  // namespace

std::unique_ptr<exercise> make_exercise(endpoint& at, const plan& what, std::size_t bytes) {
  if (what.op == "pingpong" || what.op == "oneway")
    return std::make_unique<point_to_point>(at, what, bytes);
  const perf::collective_params own{.rank = at.rank(), .ranks = at.size(), .bytes = bytes};
  return std::make_unique<collective>(at, make_data(*perf::find_operation(what.op), own),
                                      call_of(what.op));
}

}  // namespace tandem::bench
