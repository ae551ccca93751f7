#include <tandem/channel.hpp>

#include "perf/checked_data.hpp"
#include "perf/exercise.hpp"
#include "perf/window.hpp"

namespace tandem::perf {

namespace {

using clock = std::chrono::steady_clock;

/// In the range of a group id that no communicator of this program uses, to avoid the flows of
/// collectives.
constexpr flow_id flow = 4095u << 20;

/// Each rank sends to the next and receives from the previous one, concurrently.
class neighbours : public exercise {
 public:
  neighbours(channel& next, channel& previous, std::unique_ptr<checked_data> data)
      : next_(next), previous_(previous), data_(std::move(data)), both_(next.get_executor(), 2) {}
  void prepare(std::uint64_t epoch) override { data_->prepare(epoch); }
  asio::awaitable<void> iterate(std::uint64_t epoch, std::int64_t count,
                                std::vector<double>& samples_us) override {
    for (std::int64_t i = 0; i < count; ++i) {
      data_->before(epoch, i, i + 1 == count);
      const clock::time_point start = clock::now();
      const mutable_view into = data_->output();
      both_.send(next_, flow, data_->input());
      const std::size_t number = both_.recv(previous_, flow, into);
      co_await both_.all();
      wrong += into.bytes - both_.bytes(number);
      samples_us.push_back(micros_since(start));
      wrong += data_->after(epoch, i);
    }
  }
  std::uint64_t wrong_bytes(std::uint64_t epoch, std::int64_t last_iteration) override {
    return data_->wrong_bytes(epoch, last_iteration);
  }

 private:
  channel &next_, &previous_;
  std::unique_ptr<checked_data> data_;
  batch both_;
};

/// Rank 0 sends a window and receives one, rank 1 receives and sends. In a oneway exercise rank 1's
/// window is one short acknowledgement. A window of one message needs no batch. In device memory
/// the same message is sent in every iteration, and checked by `wrong_bytes` only.
class exchange : public exercise {
 public:
  exchange(channel& over, int rank, window_shape out, window_shape in, double one_way_share,
           const perf_options& o, memory_location at)
      : over_(over),
        rank_(rank),
        share_(one_way_share),
        out_(rank, out, o.source()),
        in_(1 - rank, in, o.source()),
        mirror_(at),
        sends_(over.get_executor(), out_.messages().size()),
        receives_(over.get_executor(), in_.messages().size()) {}

  void prepare(std::uint64_t epoch) override {
    out_.fill(epoch, 0);
    in_.clear();
    mirror_.upload();
  }

  asio::awaitable<void> iterate(std::uint64_t epoch, std::int64_t count,
                                std::vector<double>& samples_us) override {
    for (std::int64_t i = 0; i < count; ++i) {
      const clock::time_point start = clock::now();
      std::size_t received = 0;
      if (rank_ == 1) received = co_await receive();
      if (mirror_.on_host()) out_.mark(epoch, i);
      co_await send();
      if (rank_ == 0) received = co_await receive();
      wrong += in_.bytes() - received;
      if (mirror_.on_host()) wrong += in_.wrong_marks(epoch, i);
      samples_us.push_back(micros_since(start) * share_);
    }
  }

  std::uint64_t wrong_bytes(std::uint64_t epoch, std::int64_t last_iteration) override {
    mirror_.download();
    return in_.wrong_bytes(epoch, mirror_.on_host() ? last_iteration : 0);
  }

 private:
  asio::awaitable<void> send() {
    if (out_.messages().size() == 1) return over_.send(flow, mirror_.of(out_.messages()[0]));
    for (const std::span<std::byte> one : out_.messages())
      sends_.send(over_, flow, mirror_.of(one));
    return sends_.all();
  }
  asio::awaitable<std::size_t> receive() {
    if (in_.messages().size() == 1) return over_.recv(flow, mirror_.of(in_.messages()[0]));
    for (const std::span<std::byte> one : in_.messages())
      receives_.recv(over_, flow, mirror_.of(one));
    return receive_all();
  }
  /// Returns the total of received bytes.
  asio::awaitable<std::size_t> receive_all() {
    co_await receives_.all();
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < in_.messages().size(); ++i) bytes += receives_.bytes(i);
    co_return bytes;
  }

  channel& over_;
  int rank_;
  double share_;
  window out_, in_;
  device_mirror mirror_;
  batch sends_, receives_;
};

class idle : public exercise {
 public:
  void prepare(std::uint64_t) override {}
  asio::awaitable<void> iterate(std::uint64_t, std::int64_t, std::vector<double>&) override {
    co_return;
  }
  std::uint64_t wrong_bytes(std::uint64_t, std::int64_t) override { return 0; }
};

}  // namespace

std::unique_ptr<exercise> make_neighbours(channel& next, channel& previous, const perf_options& o,
                                          const collective_params& mine, memory_location at) {
  return std::make_unique<neighbours>(next, previous,
                                      std::make_unique<checked_data>(make_data(*o.op, mine), at));
}

std::unique_ptr<exercise> make_idle() {
  return std::make_unique<idle>();
}

std::unique_ptr<exercise> make_point_to_point(channel& over, int rank, const perf_options& o,
                                              std::size_t bytes, memory_location at) {
  const window_shape full{o.depth, bytes};
  if (o.op->name == "pingpong")
    return std::make_unique<exchange>(over, rank, full, full, 0.5, o, at);
  constexpr window_shape acknowledgement{1, 8};
  if (rank == 0) return std::make_unique<exchange>(over, rank, full, acknowledgement, 1.0, o, at);
  return std::make_unique<exchange>(over, rank, acknowledgement, full, 1.0, o, at);
}

}  // namespace tandem::perf
