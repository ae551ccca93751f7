#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <tandem/channels.hpp>
#include <tandem/communicator.hpp>
#include <tandem/detail/board_sharing.hpp>
#include <vector>

#include "support/fabric_maker.hpp"

namespace tandem::test {

/// Small limits, so that few bytes are on both sides of every limit.
inline settings small_pieces() {
  settings s;
  s.collective_chunk_bytes = 1024;
  s.eager_bytes = 512;
  return s;
}

inline std::string name_of_kind(const testing::TestParamInfo<fabric_kind>& of) {
  return of.param.name;
}

/// For a rank that does not take part.
inline asio::awaitable<void> nothing() {
  co_return;
}

/// All ranks of a job on one io_context and one thread, so that runs are reproducible.
class job {
 public:
  explicit job(int ranks, const settings& options = {}) {
    const asio::any_io_executor here = context.get_executor();
    const std::vector<asio::any_io_executor> executors(static_cast<std::size_t>(ranks), here);
    fabrics = local::make_fabrics(executors, options);
    for (const auto& f : fabrics) worlds.push_back(std::make_unique<communicator>(*f, options));
  }

  /// Connected by one of the `fabric_kinds`.
  job(const fabric_kind& over, int ranks, const settings& options) {
    asio::co_spawn(context, connect(over, ranks, options), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    while (static_cast<int>(worlds.size()) < ranks) context.run_one();
    if (ranks > 1 && fabrics[0]->kind() == "shm") {
      EXPECT_EQ(run([this](int r) { return share(world(r)); }), "");
    }
  }

  int size() const { return static_cast<int>(fabrics.size()); }
  communicator& world(int rank) { return *worlds[static_cast<std::size_t>(rank)]; }

  using rank_body = std::function<asio::awaitable<void>(int rank)>;

  /// Starts `body` on every rank; `outcome` is filled as they complete.
  void start(const rank_body& body) {
    outcome.assign(fabrics.size(), nullptr);
    running = size();
    for (int rank = 0; rank < size(); ++rank) {
      asio::co_spawn(context, body(rank), [this, rank](std::exception_ptr failure) {
        outcome[static_cast<std::size_t>(rank)] = failure;
        --running;
      });
    }
  }
  /// Runs until all bodies have completed but for so many. False if they have not after 30 s, which
  /// is a hang.
  bool finish(int still_running = 0) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    context.restart();
    while (running > still_running && std::chrono::steady_clock::now() < deadline) {
      if (context.run_one_until(deadline) == 0) break;
    }
    return running == still_running;
  }
  /// start() and finish(). The text of the first failure, "hangs", or empty.
  std::string run(const rank_body& body) {
    start(body);
    if (!finish()) return "hangs";
    for (const std::exception_ptr& failure : outcome) {
      if (failure) return describe(failure);
    }
    return {};
  }
  /// Error code of a rank; empty on success.
  error_code code(int rank) const {
    try {
      if (const auto& failure = outcome[static_cast<std::size_t>(rank)])
        std::rethrow_exception(failure);
    } catch (const boost::system::system_error& e) {
      return e.code();
    }
    return {};
  }
  error_context why(int rank) const {
    try {
      if (const auto& failure = outcome[static_cast<std::size_t>(rank)])
        std::rethrow_exception(failure);
    } catch (const error& e) {
      return e.context();
    } catch (...) {
    }
    return {.rail = {}, .phase = {}, .detail = {}, .advice = {}};
  }
  std::string text(int rank) const { return describe(outcome[static_cast<std::size_t>(rank)]); }

  static asio::awaitable<void> share(communicator& among) {
    const bool shares = co_await detail::share_board(among);
    EXPECT_TRUE(shares);
  }

  asio::awaitable<void> connect(const fabric_kind& over, int ranks, settings options) {
    fabrics = co_await over.make(ranks, options);
    for (const auto& f : fabrics) worlds.push_back(std::make_unique<communicator>(*f, options));
  }

  asio::io_context context;
  std::vector<std::unique_ptr<fabric>> fabrics;
  std::vector<std::unique_ptr<communicator>> worlds;
  std::vector<std::exception_ptr> outcome;
  int running = 0;
};

}  // namespace tandem::test
