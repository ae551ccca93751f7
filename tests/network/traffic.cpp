// Two ranks that send each other long messages concurrently over all rails; every byte is checked.
// usage: traffic BYTES MESSAGES; prints a line of JSON at the end, also after an error. Logs to
// standard error, at the level of TANDEM_LOG.

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <tandem/detail/quiet.hpp>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;
using tandem::channel;
using clock_type = std::chrono::steady_clock;

namespace {

using tandem::detail::quiet;

/// Data words that differ by message and position.
std::uint64_t word(int rank, int message, std::size_t i) {
  return (i * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(message) * 2 + 1) ^
         static_cast<std::uint64_t>(rank);
}

double ms_between(clock_type::time_point a, clock_type::time_point b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

struct traffic {
  std::size_t words = 0;
  int messages = 0;
  int rank = 0;
  int received = 0;
  std::uint64_t wrong = 0;
  double longest_stall_ms = 0;
  std::vector<double> longest_quiet_ms;  // for each rail: the longest time without progress
  double seconds = 0;
  bool over = false;
};

asio::awaitable<void> send_all(channel& to, traffic& t) {
  std::vector<std::uint64_t> out(t.words);
  for (int m = 0; m < t.messages; ++m) {
    for (std::size_t i = 0; i < t.words; ++i) out[i] = word(t.rank, m, i);
    const tandem::const_view view(out.data(), out.size() * 8);
    co_await to.send(1, view);
  }
}

asio::awaitable<void> receive_all(channel& from, traffic& t) {
  std::vector<std::uint64_t> in(t.words);
  for (int m = 0; m < t.messages; ++m) {
    const tandem::mutable_view view(in.data(), in.size() * 8);
    const std::size_t bytes = co_await from.recv(1, view);
    if (bytes != t.words * 8) t.wrong += 8;
    for (std::size_t i = 0; i < t.words; ++i) {
      if (in[i] != word(1 - t.rank, m, i)) t.wrong += 8;
    }
    ++t.received;
  }
}

/// Measures the longest time in which nothing arrived, although data was outstanding.
asio::awaitable<void> watch(const channel& from, traffic& t) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  std::uint64_t seen = 0;
  auto moved = clock_type::now();
  std::vector<std::pair<std::uint64_t, clock_type::time_point>> rails;
  while (!t.over) {
    timer.expires_after(std::chrono::milliseconds(5));
    co_await timer.async_wait(quiet);
    if (t.over) break;  // the channel may be destroyed
    const std::uint64_t now = from.stats().bytes_received;
    const auto at = clock_type::now();
    const std::vector<tandem::rail_stats> found = from.rails();
    rails.resize(found.size(), {0, at});
    t.longest_quiet_ms.resize(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      auto& [bytes, when] = rails[i];
      if (found[i].bytes_arrived != bytes) {
        t.longest_quiet_ms[i] = std::max(t.longest_quiet_ms[i], ms_between(when, at));
        rails[i] = {found[i].bytes_arrived, at};
      }
    }
    if (now == seen && t.received < t.messages) {
      t.longest_stall_ms = std::max(t.longest_stall_ms, ms_between(moved, at));
      continue;
    }
    seen = now;
    moved = at;
  }
}

asio::awaitable<void> barrier(channel& with) {
  std::byte byte{};
  const tandem::mutable_view in(&byte, 1);
  std::byte local{};
  const tandem::const_view out(&local, 1);
  co_await with.send(2, out);
  co_await with.recv(2, in);
}

asio::awaitable<void> run(traffic& t, std::string& rails) {
  const auto who = tandem::find_launch();
  if (!who) throw tandem::error(tandem::errc::bad_input, "no launcher started this");
  const auto options = tandem::settings::from_environment();
  const auto print = [](const tandem::log_record& r) {
    fmt::print(stderr, "{}: {}: {}\n", name(r.level), r.component, r.text);
  };
  tandem::set_log_sink(print, options.log);
  const auto rendezvous = co_await tandem::store::meet(*who, options);
  const auto job = co_await tandem::rails::make_fabric(rendezvous, options);
  t.rank = who->rank;
  channel& peer = co_await job->to(1 - t.rank);
  co_await barrier(peer);
  const auto executor = job->get_executor();
  asio::co_spawn(executor, watch(peer, t), [](auto...) {});
  const auto begun = clock_type::now();
  std::exception_ptr failure;
  try {
    std::vector<asio::awaitable<void>> both;
    both.push_back(send_all(peer, t));
    both.push_back(receive_all(peer, t));
    co_await tandem::when_all(std::move(both));
    t.seconds = ms_between(begun, clock_type::now()) / 1e3;
    co_await barrier(peer);
  } catch (...) {
    failure = std::current_exception();
  }
  t.over = true;
  const std::vector<tandem::rail_stats> found = peer.rails();
  t.longest_quiet_ms.resize(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    rails += fmt::format(
        R"({}{{"name": "{}", "state": "{}", "epoch": {}, "bytes": {}, "quiet_ms": {:.0f}}})",
        i == 0 ? "" : ", ", found[i].name, found[i].state, found[i].epoch, found[i].bytes_arrived,
        t.longest_quiet_ms[i]);
  }
  if (failure) std::rethrow_exception(failure);
  job->close();
  rendezvous->leave();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: traffic BYTES MESSAGES\n");
    return 2;
  }
  traffic t;
  t.words = tandem::parse_bytes(argv[1]) / 8;
  t.messages = std::atoi(argv[2]);
  std::string rails, failure_text;
  asio::io_context context(1);
  asio::co_spawn(context, run(t, rails), [&](std::exception_ptr failure) {
    t.over = true;
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      failure_text = e.what();
    }
  });
  const auto begun = clock_type::now();
  tandem::run(context);
  if (!failure_text.empty()) fmt::print(stderr, "{}\n", failure_text);
  fmt::print(R"({{"rank": {}, "received": {}, "bytes": {}, "seconds": {:.3f}, "lived_s": {:.3f}, )"
             R"("longest_stall_ms": {:.0f}, "wrong_bytes": {}, "rails": [{}]}})"
             "\n",
             t.rank, t.received, t.words * 8, t.seconds, ms_between(begun, clock_type::now()) / 1e3,
             t.longest_stall_ms, t.wrong, rails);
  return failure_text.empty() && t.wrong == 0 && t.received == t.messages ? 0 : 1;
}
