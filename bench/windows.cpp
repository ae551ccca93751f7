// Puts and gets of a window between two processes of a host: memory in a shared buffer, which the
// other process has mapped, beside memory that is accessed by messages, a send with its receive,
// and memcpy inside one process. Prints one record for each.
// usage: tandem run -n 2 -- windows [ROUNDS]
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tandem/tandem.hpp>

#include "perf/record.hpp"

namespace tandem::bench {
namespace {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;

constexpr std::size_t lengths[] = {8, 4096, 64 << 10, 1 << 20, 16 << 20};
constexpr std::size_t longest = lengths[4];
constexpr double min_us = 20'000;  // of a measurement

int times_of(std::size_t bytes) {
  return std::max(4, static_cast<int>(min_us / (2 + static_cast<double>(bytes) / 5'000)));
}

/// The two ways to access memory of the other rank.
struct ways {
  window mapped, messages;
};

/// One round of all measurements of this length, in microseconds of a call. The answer to the last
/// put of a series tells that all have arrived.
class round {
 public:
  round(communicator& world, ways& both, std::size_t bytes, const buffer& own, const buffer& got)
      : world_(world),
        both_(both),
        times_(times_of(bytes)),
        own_(own.view().part(0, bytes)),
        got_(got.view().part(0, bytes)) {}

  asio::awaitable<void> run(std::map<std::string, std::vector<double>>& into) {
    for (window* const over : {&both_.mapped, &both_.messages}) {
      const std::string way = over == &both_.mapped ? "mapped" : "messages";
      co_await barrier(world_);
      auto begun = clock::now();
      co_await put_all(*over);
      into["put, " + way].push_back(since_us(begun));
      co_await barrier(world_);
      begun = clock::now();
      if (world_.rank() == 0) {
        for (int i = 0; i < times_; ++i) co_await over->get(1, 0, got_);
      }
      into["get, " + way].push_back(since_us(begun));
    }
    co_await barrier(world_);
    const auto begun = clock::now();
    for (int i = 0; i < times_; ++i) {
      if (world_.rank() == 0) co_await world_.send(1, own_);
      if (world_.rank() == 1) co_await world_.recv(0, own_);
    }
    into["send and receive"].push_back(since_us(begun));
    co_await barrier(world_);
  }

 private:
  asio::awaitable<void> put_all(window& over) {
    for (int i = 0; i < times_; ++i) {
      if (world_.rank() == 0) co_await over.put(1, 0, own_, static_cast<std::uint64_t>(i));
      if (world_.rank() == 1) co_await over.notified();
    }
    if (world_.rank() == 1) co_await world_.send(0, {});
    if (world_.rank() == 0) co_await world_.recv(1, {});
  }
  double since_us(clock::time_point begun) const {
    return std::chrono::duration<double, std::micro>(clock::now() - begun).count() / times_;
  }

  communicator& world_;
  ways& both_;
  const int times_;
  const mutable_view own_, got_;
};

double memcpy_us(std::size_t bytes, const buffer& to, const buffer& from) {
  const int times = times_of(bytes);
  const auto begun = clock::now();
  for (int i = 0; i < times; ++i) {
    std::memcpy(to.data(), from.data(), bytes);
    asm volatile("" ::: "memory");
  }
  return std::chrono::duration<double, std::micro>(clock::now() - begun).count() / times;
}

std::uint64_t wrong_bytes(const void* memory, std::byte expected, std::size_t bytes) {
  const auto* const at = static_cast<const std::byte*>(memory);
  return bytes - static_cast<std::uint64_t>(std::count(at, at + bytes, expected));
}

void print(const std::string& what, std::size_t bytes, std::vector<double> samples_us,
           std::uint64_t wrong) {
  perf::record line;
  line.op = "window";
  line.channel = "tandem-shm";
  line.bytes = bytes;
  line.iters = static_cast<std::int64_t>(samples_us.size()) * times_of(bytes);
  const double mean_us = perf::mean_of(samples_us);
  line.time_us = perf::summarize(std::move(samples_us), mean_us);
  line.wrong_bytes = wrong;
  line.settings = {{"what", what}};
  if (const char* const commit = std::getenv("BENCH_COMMIT")) line.commit = commit;
  std::printf("%s\n", line.json().c_str());
}

asio::awaitable<int> run_rank(launch_info who, int rounds) {
  const settings options = settings::from_environment();
  const std::shared_ptr<store> meeting = co_await store::meet(who, options);
  const std::unique_ptr<fabric> job = co_await shm::make_fabric(meeting, options);
  communicator world(*job, options);
  const shm::shared_buffer shared(longest);
  const buffer plain(longest), own(longest), other(longest);
  int status = 0;
  {
    window mapped = co_await make_window(world, shared.view());
    window messages = co_await make_window(world, plain.view());
    ways both{std::move(mapped), std::move(messages)};
    if (!both.mapped.is_mapped(1 - world.rank())) throw std::runtime_error("it is not mapped");
    for (const std::size_t bytes : lengths) {
      std::map<std::string, std::vector<double>> times_us;
      std::uint64_t wrong = 0;
      for (int i = 0; i < rounds; ++i) {
        const auto value = static_cast<std::byte>(i + 1);
        std::memset(own.data(), static_cast<int>(value), bytes);
        round one(world, both, bytes, own, other);
        co_await one.run(times_us);
        if (world.rank() == 1) {
          wrong +=
              wrong_bytes(shared.data(), value, bytes) + wrong_bytes(plain.data(), value, bytes);
        } else {
          wrong += wrong_bytes(other.data(), value, bytes);
          times_us["memcpy"].push_back(memcpy_us(bytes, other, own));
        }
      }
      const const_view mine(&wrong, sizeof wrong);
      std::uint64_t all = 0;
      const mutable_view sum(&all, sizeof all);
      co_await all_reduce(world, mine, sum, data_type::uint64, reduce_op::sum);
      if (all != 0) status = 1;
      if (world.rank() != 0) continue;
      for (auto& [what, samples_us] : times_us) print(what, bytes, std::move(samples_us), all);
    }
    co_await both.mapped.close();
    co_await both.messages.close();
  }
  job->close();
  meeting->leave();
  co_return status;
}

}  // namespace
}  // namespace tandem::bench

int main(int count, char** arguments) try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who) throw std::runtime_error("start it by: tandem run -n 2 -- windows [ROUNDS]");
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 5;
  boost::asio::io_context context;
  std::future<int> done = boost::asio::co_spawn(context, tandem::bench::run_rank(*who, rounds),
                                                boost::asio::use_future);
  tandem::run(context);
  return done.get();
} catch (const std::exception& failure) {
  std::fprintf(stderr, "windows: %s\n", failure.what());
  return 2;
}
