// The cost of coroutines: the same ping-pong on plain Asio with callbacks (--mode callback) and as
// an awaitable (--mode awaitable), one io_context in tandem::run. Compared with `tandem perf
// pingpong`, it shows what the channel adds: header, flows, credits, checks.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <tandem/async.hpp>
#include <tandem/settings.hpp>

#include "harness.hpp"
#include "perf/window.hpp"

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using clock = std::chrono::steady_clock;
using tandem::perf::window;

/// State of one measurement on one rank: `warmup` iterations, then the timed ones.
struct exchange {
  tcp::socket& socket;
  int rank;
  std::int64_t warmup, iters;
  window out, in;
  std::vector<double> samples_us;
  std::uint64_t wrong = 0;
  clock::time_point start;
  std::int64_t iteration = 0;

  exchange(tcp::socket& over, int own_rank, const tandem::bench::plan& what,
           const tandem::bench::measurement& of)
      : socket(over),
        rank(own_rank),
        warmup(what.warmup),
        iters(of.iters),
        out(own_rank, {1, of.bytes}),
        in(1 - own_rank, {1, of.bytes}) {
    samples_us.reserve(of.iters);
    out.fill(0, 0);
    in.clear();
  }

  asio::mutable_buffer to_send() { return buffer(out); }
  asio::mutable_buffer to_fill() { return buffer(in); }
  void begin() {
    start = clock::now();
    if (rank == 0) out.mark(0, iteration);
  }
  /// Checks a received message. The reply of rank 1 carries the same iteration number.
  void received() {
    wrong += in.wrong_marks(0, iteration);
    if (rank == 1) out.mark(0, iteration);
  }
  /// False after the last iteration.
  bool end() {
    if (iteration >= warmup) {
      const std::chrono::duration<double, std::micro> took = clock::now() - start;
      samples_us.push_back(took.count() / 2);
    }
    if (++iteration < warmup + iters) return true;
    wrong += in.wrong_bytes(0, iteration - 1);
    return false;
  }

 private:
  static asio::mutable_buffer buffer(window& one) {
    return {one.messages()[0].data(), one.messages()[0].size()};
  }
};

void require(const boost::system::error_code& failed) {
  if (failed) throw boost::system::system_error(failed);
}

/// Rank 0 writes then reads, rank 1 reads then writes: the same cycle with different starting
/// points.
struct callback_loop {
  exchange& state;

  void read() {
    asio::async_read(state.socket, state.to_fill(),
                     [this](const boost::system::error_code& failed, std::size_t) {
                       require(failed);
                       state.received();
                       if (state.rank == 1) return write();
                       if (!state.end()) return;
                       state.begin();
                       write();
                     });
  }
  void write() {
    asio::async_write(state.socket, state.to_send(),
                      [this](const boost::system::error_code& failed, std::size_t) {
                        require(failed);
                        if (state.rank == 0 || state.end()) read();
                      });
  }
};

asio::awaitable<void> awaitable_loop(exchange& state) {
  for (bool more = true; more;) {
    state.begin();
    if (state.rank == 0) {
      co_await asio::async_write(state.socket, state.to_send(), asio::use_awaitable);
    }
    co_await asio::async_read(state.socket, state.to_fill(), asio::use_awaitable);
    state.received();
    if (state.rank == 1) {
      co_await asio::async_write(state.socket, state.to_send(), asio::use_awaitable);
    }
    more = state.end();
  }
}

void rethrow(std::exception_ptr failure) {
  if (failure) std::rethrow_exception(failure);
}

void run_one(asio::io_context& context, exchange& state, bool callbacks) {
  callback_loop loop{state};
  if (callbacks) {
    state.begin();
    if (state.rank == 0)
      loop.write();
    else
      loop.read();
  } else {
    asio::co_spawn(context, awaitable_loop(state), rethrow);
  }
  tandem::run(context, {.max_spin = tandem::settings::from_environment().spin});
  context.restart();
}

int run_rank(int rank, const tandem::bench::loopback_listener& listener,
             const tandem::bench::plan& what) {
  asio::io_context context(1);
  tcp::socket socket(context, tcp::v4(), tandem::bench::connect_pair(listener, rank));
  std::uint64_t total_wrong = 0;
  for (const tandem::bench::measurement& of : what.measurements) {
    exchange state(socket, rank, what, of);
    run_one(context, state, what.mode == "callback");
    std::uint64_t remote_wrong = 0;
    if (rank == 1) {
      asio::write(socket, asio::buffer(&state.wrong, sizeof(state.wrong)));
    } else {
      asio::read(socket, asio::buffer(&remote_wrong, sizeof(remote_wrong)));
      state.wrong += remote_wrong;
      tandem::bench::print_record(what, of, "asio-" + what.mode, state.samples_us, state.wrong);
    }
    total_wrong += state.wrong;
  }
  return total_wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const tandem::bench::plan what = tandem::bench::parse_plan(argc, argv);
  if (what.op != "pingpong" || (what.mode != "callback" && what.mode != "awaitable")) {
    std::fprintf(stderr, "this program runs pingpong with --mode callback or --mode awaitable\n");
    return 2;
  }
  const tandem::bench::loopback_listener listener = tandem::bench::listen_on_loopback();
  return tandem::bench::fork_ranks(2, [&](int rank) {
    try {
      return run_rank(rank, listener, what);
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "%s\n", failure.what());
      return 2;
    }
  });
}
