#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <tandem/store.hpp>
#include <vector>

#include "support/reserved_port.hpp"

/// Ranks of one job in one process and one io_context, over loopback sockets.
namespace store_testing {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::milliseconds;
using tandem::errc;
using tandem::error;
using tandem::test::reserved_port;

inline constexpr std::chrono::seconds timeout{30};

/// Result of an awaitable.
template <class T>
struct outcome {
  bool done = false;
  std::optional<T> value;
  std::optional<error> failure;
  std::string other;

  void end(std::exception_ptr e) {
    done = true;
    try {
      if (e) std::rethrow_exception(e);
    } catch (const error& known) {
      failure = known;
    } catch (const std::exception& unknown) {
      other = unknown.what();
    }
  }
};

template <class T>
void start(asio::io_context& io, asio::awaitable<T> work, outcome<T>& into) {
  asio::co_spawn(io, std::move(work), [&into](std::exception_ptr e, T value) {
    if (!e) into.value = std::move(value);
    into.end(e);
  });
}

struct nothing {};
inline void start(asio::io_context& io, asio::awaitable<void> work, outcome<nothing>& into) {
  asio::co_spawn(io, std::move(work), [&into](std::exception_ptr e) { into.end(e); });
}

using join_result = outcome<std::shared_ptr<tandem::store>>;

class store_job : public testing::Test {
 protected:
  tandem::launch_info launch_as(int rank, int size) const {
    tandem::launch_info who;
    who.rank = rank;
    who.size = size;
    who.address = "127.0.0.1";
    who.port = port_.number();
    who.job = "job";
    return who;
  }

  tandem::settings within(milliseconds meet) const {
    tandem::settings options;
    options.job_secret = secret_;
    options.meet_timeout = meet;
    return options;
  }

  join_result& join(const tandem::launch_info& who, milliseconds limit = timeout) {
    return join(who, within(limit));
  }
  join_result& join(const tandem::launch_info& who, const tandem::settings& options) {
    join_result& into = joins_.emplace_back();
    start(io_, tandem::store::meet(who, options), into);
    return into;
  }

  template <class Ready>
  void run_until(Ready ready) {
    const auto limit = std::chrono::steady_clock::now() + timeout;
    io_.restart();
    while (!ready()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "nothing happened";
      if (io_.stopped()) io_.restart();
      io_.run_one_for(milliseconds(100));
    }
  }

  /// Runs the ready handlers.
  void run_ready() {
    io_.restart();
    while (io_.poll() > 0) continue;
  }

  /// Joins all ranks of a job of `size`.
  std::vector<std::shared_ptr<tandem::store>> all(int size) {
    std::vector<join_result*> each;
    for (int rank = 0; rank < size; ++rank) each.push_back(&join(launch_as(rank, size)));
    run_until([&] { return all_done(each); });
    std::vector<std::shared_ptr<tandem::store>> stores;
    for (const join_result* one : each) {
      EXPECT_TRUE(one->value) << (one->failure ? one->failure->what() : one->other);
      stores.push_back(one->value.value_or(nullptr));
    }
    joins_.clear();
    return stores;
  }

  static bool all_done(const std::vector<join_result*>& each) {
    for (const join_result* one : each) {
      if (!one->done) return false;
    }
    return true;
  }

  template <class T>
  outcome<T> finish(asio::awaitable<T> work) {
    outcome<T> result;
    start(io_, std::move(work), result);
    run_until([&] { return result.done; });
    return result;
  }

  outcome<nothing> finish(asio::awaitable<void> work) {
    outcome<nothing> result;
    start(io_, std::move(work), result);
    run_until([&] { return result.done; });
    return result;
  }

  asio::io_context io_;
  tandem::secret secret_;
  const reserved_port port_;
  std::deque<join_result> joins_;
};

inline testing::AssertionResult is(const std::optional<error>& e, errc code,
                                   const std::vector<std::string>& parts) {
  if (!e) return testing::AssertionFailure() << "no error";
  const std::string text = e->what();
  if (e->code() != code) return testing::AssertionFailure() << "another code: " << text;
  if (text.find('\n') != std::string::npos)
    return testing::AssertionFailure() << "two lines: " << text;
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) {
      return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
    }
  }
  return testing::AssertionSuccess();
}

struct loss_record {
  int times = 0;
  std::optional<error> reason;
};

inline void listen(tandem::store& s, loss_record& into) {
  s.on_lost([&into](const error& reason) {
    ++into.times;
    into.reason = reason;
  });
}

}  // namespace store_testing
