// Round-trip latency of 8 bytes during a bulk transfer from one GPU to the other, and its effect on
// the bulk throughput: --mode tandem (flows of one channel) or nccl (two communicators, each with a
// stream and a thread of its own). First each alone, then both concurrently.
//
// The short messages of rank 0 travel in the direction of the long ones, the replies in the other.

#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdio>
#include <tandem/async.hpp>
#include <tandem/channel.hpp>
#include <thread>

#include "gpu_job.hpp"

namespace {

namespace asio = boost::asio;
using asio::awaitable;
using tandem::accelerator;
using tandem::memory_kind;
using tandem::mutable_view;
using tandem::bench::barrier_wait;
using tandem::bench::messages;
using tandem::bench::plan;
using tandem::bench::shared_state;
using clock_type = std::chrono::steady_clock;

constexpr int ranks = 2;
constexpr tandem::flow_id long_flow = 1, short_flow = 2, control_flow = 3;
constexpr std::int64_t windows_alone = 60;
constexpr std::size_t short_bytes = 8;

double micros_since(clock_type::time_point start) {
  return std::chrono::duration<double, std::micro>(clock_type::now() - start).count();
}

/// Measurements of rank 0.
struct times {
  std::vector<double> shorts_us;   ///< half round trips
  std::vector<double> windows_us;  ///< a window of long messages
};
/// Shared progress of the window transfers.
struct progress {
  std::atomic<int> port{0};
  std::atomic<long> windows{0};        ///< started by rank 0
  std::atomic<bool> has_ended{false};  ///< rank 0 starts no more
};

awaitable<void> exchange_shorts(tandem::channel& peer, int rank, mutable_view word,
                                std::int64_t count, times& into) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto start = clock_type::now();
    if (rank == 0) co_await peer.send(short_flow, word);
    co_await peer.recv(short_flow, word);
    if (rank != 0) co_await peer.send(short_flow, word);
    into.shorts_us.push_back(micros_since(start) / 2);
  }
}

/// Repeats until `is_over` on rank 0, which announces before each window whether there is one.
template <class Over>
awaitable<void> move_windows(tandem::channel& peer, int rank, const messages& what, Over is_over,
                             times& into) {
  tandem::batch window(peer.get_executor(), what.views().size());
  for (;;) {
    std::byte word{rank == 0 && !is_over() ? std::byte{1} : std::byte{0}};
    const mutable_view view(&word, 1);
    if (rank == 0) {
      co_await peer.send(control_flow, view);
    } else {
      co_await peer.recv(control_flow, view);
    }
    if (word == std::byte{0}) co_return;
    const auto start = clock_type::now();
    for (const mutable_view& each : what.views()) {
      if (rank == 0) {
        window.send(peer, long_flow, each);
      } else {
        window.recv(peer, long_flow, each);
      }
    }
    co_await window.all();
    into.windows_us.push_back(micros_since(start));
  }
}

struct outcome {
  times alone, concurrent;
};

awaitable<void> concurrent_shorts(tandem::channel& peer, int rank, mutable_view word,
                                  std::int64_t count, times& into, bool& is_over) {
  co_await exchange_shorts(peer, rank, word, count, into);
  is_over = true;
}

awaitable<void> measure(tandem::channel& peer, int rank, const messages& what, mutable_view word,
                        std::int64_t count, outcome& found) {
  for (times* const each : {&found.concurrent, &found.alone}) {  // the first run is a warm-up
    each->shorts_us.clear();
    co_await exchange_shorts(peer, rank, word, count, *each);
  }
  found.concurrent = {};
  std::int64_t left = windows_alone;
  const auto has_sent_all = [&left] { return left-- == 0; };
  co_await move_windows(peer, rank, what, has_sent_all, found.alone);
  bool is_over = false;
  const auto has_ended = [&is_over] { return is_over; };
  std::vector<awaitable<void>> both;
  both.push_back(move_windows(peer, rank, what, has_ended, found.concurrent));
  both.push_back(concurrent_shorts(peer, rank, word, count, found.concurrent, is_over));
  co_await tandem::when_all(std::move(both));
}

using tandem::bench::nccl_rank;

void exchange_shorts(nccl_rank& over, mutable_view word, std::int64_t count, times& into) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto start = clock_type::now();
    if (over.rank() == 0) over.send(word, 1);
    over.recv(word, 1 - over.rank());
    if (over.rank() != 0) over.send(word, 0);
    over.finish();
    into.shorts_us.push_back(micros_since(start) / 2);
  }
}

template <class Over>
void move_windows(nccl_rank& over, progress& in, const messages& what, Over is_over, times& into) {
  for (long window = 0;; ++window) {
    if (over.rank() == 0) {
      if (is_over()) in.has_ended.store(true);
      if (!in.has_ended.load()) in.windows.store(window + 1);
    }
    while (over.rank() != 0 && in.windows.load() <= window && !in.has_ended.load()) continue;
    if (in.windows.load() <= window) return;
    const auto start = clock_type::now();
    over.begin();
    for (const mutable_view& each : what.views()) {
      over.rank() == 0 ? over.send(each, 1) : over.recv(each, 0);
    }
    over.end();
    over.finish();
    into.windows_us.push_back(micros_since(start));
  }
}

void measure_nccl(shared_state& with, progress& in, int rank, accelerator& device,
                  const messages& what, mutable_view word, std::int64_t count, outcome& found) {
  std::string why;
  const tandem::detail::nccl* const lib = tandem::detail::find_nccl(memory_kind::cuda, why);
  if (lib == nullptr) throw tandem::error(tandem::errc::device_failed, why);
  std::vector<std::unique_ptr<nccl_rank>> both;
  for (int i = 0; i < 2; ++i) {
    if (rank == 0) tandem::bench::check_nccl(*lib, lib->get_unique_id(&with.id), "ncclGetUniqueId");
    barrier_wait(with, ranks);
    both.push_back(std::make_unique<nccl_rank>(*lib, device, rank, ranks, with.id));
    barrier_wait(with, ranks);
  }
  for (times* const each : {&found.concurrent, &found.alone}) {
    each->shorts_us.clear();
    exchange_shorts(*both[0], word, count, *each);
  }
  found.concurrent = {};
  std::int64_t left = windows_alone;
  move_windows(
      *both[1], in, what, [&left] { return left-- == 0; }, found.alone);
  barrier_wait(with, ranks);
  in.windows.store(0);
  in.has_ended.store(false);
  barrier_wait(with, ranks);
  std::atomic<bool> is_over{false};
  std::thread longs([&] {
    device.enter();
    move_windows(
        *both[1], in, what, [&is_over] { return is_over.load(); }, found.concurrent);
    device.leave();
  });
  exchange_shorts(*both[0], word, count, found.concurrent);
  is_over.store(true);
  longs.join();
}

int run_rank(const plan& what, shared_state& with, progress& in, int rank) {
  accelerator& device = tandem::accelerator_at(memory_kind::cuda, rank);
  messages moved(rank, what);
  const tandem::buffer word(short_bytes, memory_kind::cuda, rank);
  const std::int64_t count = what.measurements.front().iters;
  outcome found;
  barrier_wait(with, ranks);
  if (what.mode == "nccl") {
    measure_nccl(with, in, rank, device, moved, word.view(), count, found);
  } else {
    const auto port = static_cast<std::uint16_t>(in.port.load());
    tandem::bench::run_job(rank, port, [&](tandem::channel& peer) {
      return measure(peer, rank, moved, word.view(), count, found);
    });
  }
  with.wrong.fetch_add(moved.wrong_bytes());
  barrier_wait(with, ranks);
  if (rank == 0) {
    plan single = what;
    single.depth = 1;
    const std::uint64_t wrong = with.wrong.load();
    const tandem::bench::measurement one{short_bytes, count};
    tandem::bench::print_record(single, one, what.mode + " alone", found.alone.shorts_us, wrong);
    tandem::bench::print_record(single, one, what.mode + " beside", found.concurrent.shorts_us,
                                wrong);
    const tandem::bench::measurement& longs = what.measurements.front();
    tandem::bench::print_record(what, longs, what.mode + " alone", found.alone.windows_us, wrong);
    tandem::bench::print_record(what, longs, what.mode + " beside", found.concurrent.windows_us,
                                wrong);
  }
  return with.wrong.load() == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return tandem::bench::start_ranks("gpu_beside", argc, argv, run_rank);
}
