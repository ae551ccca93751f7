#pragma once

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/store.hpp>
#include <vector>

#include "gpu_ranks.hpp"
#include "perf/device_mirror.hpp"
#include "perf/window.hpp"

/// A Tandem job of two ranks with one GPU each, and long messages between them.
namespace tandem::bench {

/// The messages of one window of rank 0, in device memory.
class messages {
 public:
  messages(int rank, const plan& what)
      : window_(0, {what.depth, what.measurements.front().bytes}),
        where_(perf::memory_location_for("cuda", rank)) {
    if (rank == 0) window_.fill(0, 0);
    where_.upload();
    for (const auto& each : window_.messages()) views_.push_back(where_.of(each));
  }
  const std::vector<mutable_view>& views() const { return views_; }
  std::uint64_t wrong_bytes() {
    where_.download();
    return window_.wrong_bytes(0, 0);
  }

 private:
  perf::window window_;
  perf::device_mirror where_;
  std::vector<mutable_view> views_;
};

/// The body of a rank, run with its channel to the peer.
using rank_body = std::function<asio::awaitable<void>(channel& peer)>;

inline asio::awaitable<void> run_rank_body(int rank, std::uint16_t port, rank_body what) {
  launch_info who;
  who.rank = who.local_rank = rank;
  who.size = who.local_size = 2;
  who.address = "127.0.0.1";
  who.port = port;
  who.job = "bench";
  const settings options;
  std::shared_ptr<store> rendezvous = co_await store::meet(who, options);
  std::unique_ptr<fabric> over = co_await shm::make_fabric(std::move(rendezvous), options);
  const std::unique_ptr<fabric> job = devices::make_fabric(std::move(over), options);
  channel& peer = co_await job->to(1 - rank);
  co_await what(peer);
  std::byte last{};
  const mutable_view word(&last, 1);
  constexpr flow_id final_flow = 9;
  if (rank == 0) {
    co_await peer.send(final_flow, word);
    co_await peer.recv(final_flow, word);
  } else {
    co_await peer.recv(final_flow, word);
    co_await peer.send(final_flow, word);
  }
  job->close();
}

/// Runs `what` over shared memory and peer copies. @param port  a free port, the same on both ranks
inline void run_job(int rank, std::uint16_t port, rank_body what) {
  asio::io_context loop;
  std::exception_ptr failure;
  asio::co_spawn(loop, run_rank_body(rank, port, std::move(what)),
                 [&failure](std::exception_ptr why) { failure = why; });
  run(loop, spin_policy{.max_spin = std::chrono::microseconds(1000)});
  if (failure) std::rethrow_exception(failure);
}

/// Main function of a program with two ranks that share a `shared_state` and `in`, whose `port` is
/// set to a free port. Returns the exit status.
template <class Progress>
int start_ranks(const char* name, int argc, char** argv,
                int (*run_rank)(const plan& what, shared_state& with, Progress& in, int rank)) {
  try {
    const plan what = parse_plan(argc, argv);
    shared_state& with = make_shared<shared_state>();
    Progress& in = make_shared<Progress>();
    const loopback_listener free = listen_on_loopback();
    in.port.store(free.port);
    ::close(free.descriptor);
    return fork_ranks(2, [&](int rank) { return run_rank(what, with, in, rank); });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", name, e.what());
    return 1;
  }
}

}  // namespace tandem::bench
