// One of two ranks that send each other messages of random length on several flows, both ways, for
// a given time, every byte checked; then an audit of what is left.
// usage: soak_traffic SECONDS SEED
//
// Prints status lines, and after some of them waits for a line on its input: "up" when all lanes
// are up (waits), "at" periodically, "stable" when all traffic is complete, all lanes are up again
// and each has used every one of its slots again (waits), "closed" when the channel is destroyed
// (waits), and at the end a line of JSON. Logs to standard error.

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <random>
#include <tandem/tandem.hpp>

#include "support/pattern.hpp"
#include "transports/rails/verbs/object_counts.hpp"

namespace asio = boost::asio;
using tandem::channel;
using tandem::flow_id;
using tandem::verbs::object_counts;
using clock_type = std::chrono::steady_clock;

namespace {

constexpr flow_id flows = 3, audit_flow = 10;
constexpr std::size_t longest = 2 << 20;
constexpr std::chrono::seconds report_every{20}, heal_limit{1800};
/// Bytes by which a lane uses all of its slots at least twice: they have 8 MiB.
constexpr std::uint64_t slots_bytes = 17 << 20;
/// Long, because a lane that was slow so far gets no chunk of a short message that the other lanes
/// could finish before it, and so its rate would never be measured again.
constexpr std::size_t slots_message_bytes = 48 << 20;
constexpr int max_slots_messages = 12;

struct header {
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;  ///< after the header
  std::uint64_t is_last = 0;
};

struct soak {
  int rank = 0;
  clock_type::time_point begun = clock_type::now(), until;
  std::uint32_t seed = 0;
  std::uint64_t sent = 0, received = 0, bytes = 0, wrong = 0;
  bool over = false;
};

double seconds_since(clock_type::time_point when) {
  return std::chrono::duration<double>(clock_type::now() - when).count();
}

/// The data pattern: different for each rank, flow and number.
std::uint64_t pattern_of(int rank, flow_id flow, std::uint64_t number) {
  return number * 1000 + static_cast<std::uint64_t>(flow) * 10 + static_cast<std::uint64_t>(rank);
}

std::size_t random_length(std::mt19937& random) {
  const std::size_t max_lengths[] = {300, 8'192, 300'000, longest};
  return random() % (max_lengths[random() % 4] + 1);
}

asio::awaitable<void> send_all(channel& to, soak& s, flow_id flow) {
  std::mt19937 random(s.seed + static_cast<std::uint32_t>(100 * s.rank) +
                      static_cast<std::uint32_t>(flow));
  std::vector<std::byte> out(sizeof(header) + longest);
  for (header h; h.is_last == 0; ++h.number) {
    h.bytes = random_length(random);
    h.is_last = clock_type::now() >= s.until ? 1 : 0;
    std::memcpy(out.data(), &h, sizeof h);
    const std::span<std::byte> body(out.data() + sizeof h, h.bytes);
    tandem::test::fill(body, pattern_of(s.rank, flow, h.number));
    const tandem::const_view view(out.data(), sizeof h + h.bytes);
    co_await to.send(flow, view);
    ++s.sent;
  }
}

asio::awaitable<void> receive_all(channel& from, soak& s, flow_id flow) {
  std::vector<std::byte> in(sizeof(header) + longest);
  header h;
  for (std::uint64_t number = 0; h.is_last == 0; ++number) {
    const tandem::mutable_view view(in.data(), in.size());
    const std::size_t bytes = co_await from.recv(flow, view);
    std::memcpy(&h, in.data(), sizeof h);
    const std::span<const std::byte> body(in.data() + sizeof h, bytes - sizeof h);
    const bool is_right = h.number == number && h.bytes == body.size() &&
                          !tandem::test::first_wrong(body, pattern_of(1 - s.rank, flow, number));
    if (!is_right) {
      s.wrong += bytes;
      fmt::print(stderr, "wrong: flow {}, message {}, {} bytes\n", flow, number, bytes);
    }
    ++s.received;
    s.bytes += bytes;
  }
}

std::string progress_text(const soak& s, const channel& to) {
  std::string lanes;
  for (const tandem::rail_stats& one : to.rails()) {
    lanes += fmt::format(", {} {} lost {} ({} MB, {:.0f} kB/s)",
                         one.name.substr(0, one.name.find(' ')), one.state, one.times_lost,
                         one.bytes_arrived / 1'000'000, one.bytes_per_s / 1e3);
  }
  const object_counts now = object_counts::take();
  return fmt::format("{:.0f} s, {} messages, {} MB, {} wrong bytes; {} pairs, {} regions{}",
                     seconds_since(s.begun), s.received, s.bytes / 1'000'000, s.wrong, now.pairs,
                     now.regions, lanes);
}

void print_line(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

asio::awaitable<void> report(const channel& to, soak& s) {
  asio::steady_timer timer(to.get_executor());
  for (auto next = clock_type::now() + report_every; !s.over;) {
    timer.expires_after(std::chrono::milliseconds(200));
    co_await timer.async_wait(asio::use_awaitable);
    if (s.over || clock_type::now() < next) continue;
    next += report_every;
    print_line("at " + progress_text(s, to));
  }
}

/// Waits for a line of input, while heartbeats continue.
asio::awaitable<void> print_and_wait(std::string line) {
  print_line(line);
  asio::posix::stream_descriptor in(co_await asio::this_coro::executor, ::dup(STDIN_FILENO));
  for (char c = 0; c != '\n';) {
    const auto [failure, n] =
        co_await in.async_read_some(asio::buffer(&c, 1), asio::as_tuple(asio::use_awaitable));
    if (failure) throw tandem::error(tandem::errc::bad_input, "no answer to '" + line + "'");
  }
}

asio::awaitable<void> send_bytes(channel& to, flow_id flow, std::vector<std::byte>& from) {
  const tandem::const_view view(from.data(), from.size());
  co_await to.send(flow, view);
}

asio::awaitable<void> receive_bytes(channel& from, flow_id flow, std::vector<std::byte>& into) {
  const tandem::mutable_view view(into.data(), into.size());
  co_await from.recv(flow, view);
}

/// The same length both ways; also a barrier.
asio::awaitable<void> exchange(channel& with, std::vector<std::byte>& local,
                               std::vector<std::byte>& remote) {
  std::vector<asio::awaitable<void>> both;
  both.push_back(send_bytes(with, audit_flow, local));
  both.push_back(receive_bytes(with, audit_flow, remote));
  co_await tandem::when_all(std::move(both));
}

asio::awaitable<void> all_up(channel& to) {
  asio::steady_timer timer(to.get_executor());
  const auto give_up = clock_type::now() + heal_limit;
  for (;;) {
    bool up = true;
    for (const tandem::rail_stats& one : to.rails()) up = up && one.state == "up";
    if (up) co_return;
    if (clock_type::now() > give_up) {
      throw tandem::error(tandem::errc::timed_out, "a lane does not come back");
    }
    timer.expires_after(std::chrono::milliseconds(50));
    co_await timer.async_wait(asio::use_awaitable);
  }
}

asio::awaitable<void> all_traffic(channel& peer, soak& s) {
  std::vector<asio::awaitable<void>> parts;
  for (flow_id f = 0; f < flows; ++f) {
    parts.push_back(send_all(peer, s, f));
    parts.push_back(receive_all(peer, s, f));
  }
  co_await tandem::when_all(std::move(parts));
}

/// Acknowledged bytes of the RDMA lane that carried the fewest.
std::uint64_t min_by_rdma(const channel& to, std::vector<std::uint64_t>& before) {
  std::uint64_t fewest = ~std::uint64_t{0};
  const std::vector<tandem::rail_stats> lanes = to.rails();
  before.resize(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].name.find(" over ") == std::string::npos) continue;
    fewest = std::min(fewest, lanes[i].bytes_arrived - before[i]);
  }
  return fewest;
}

/// A slot lost with a dead lane, or a lost credit, would block the bytes that follow.
asio::awaitable<bool> use_every_slot(channel& peer, soak& s) {
  std::vector<std::uint64_t> before;
  for (const tandem::rail_stats& one : peer.rails()) before.push_back(one.bytes_arrived);
  std::vector<std::byte> local(slots_message_bytes), remote(slots_message_bytes);
  for (int i = 0; i < max_slots_messages; ++i) {
    const auto number = static_cast<std::uint64_t>(i);
    local.resize(slots_message_bytes);
    remote.resize(slots_message_bytes);
    tandem::test::fill(local, pattern_of(s.rank, audit_flow, number));
    co_await exchange(peer, local, remote);
    if (tandem::test::first_wrong(remote, pattern_of(1 - s.rank, audit_flow, number))) {
      s.wrong += remote.size();
    }
    const std::uint64_t fewest = min_by_rdma(peer, before);
    print_line(fmt::format("slots {} MB by the RDMA lane that carried least; {}",
                           fewest / 1'000'000, progress_text(s, peer)));
    local.assign(1, std::byte{fewest >= slots_bytes});
    remote.resize(1);
    co_await exchange(peer, local, remote);
    if (local[0] == std::byte{1} && remote[0] == std::byte{1}) co_return true;
  }
  co_return false;
}

std::string result_json(const soak& s, const channel& peer, bool slots) {
  std::uint32_t lost = 0;
  for (const tandem::rail_stats& one : peer.rails()) lost += one.times_lost;
  return fmt::format(
      R"({{"op": "soak", "rank": {}, "seed": {}, "seconds": {:.0f}, "messages": {}, "bytes": {}, )"
      R"("wrong_bytes": {}, "lanes_lost": {}, "unread_bytes": {}, "every_slot_used": {}, )",
      s.rank, s.seed, seconds_since(s.begun), s.received, s.bytes, s.wrong, lost,
      peer.stats().unexpected_bytes, slots);
}

asio::awaitable<void> run(soak& s, std::string& line, bool& good) {
  const auto who = tandem::find_launch();
  if (!who) throw tandem::error(tandem::errc::bad_input, "no launcher started this");
  const auto options = tandem::settings::from_environment();
  const auto print = [](const tandem::log_record& r) {
    fmt::print(stderr, "{}: {}: {}\n", name(r.level), r.component, r.text);
  };
  tandem::set_log_sink(print, options.log);
  const auto rendezvous = co_await tandem::store::meet(*who, options);
  auto job = co_await tandem::rails::make_fabric(rendezvous, options);
  s.rank = who->rank;
  channel& peer = co_await job->to(1 - s.rank);
  co_await all_up(peer);
  co_await print_and_wait("up");
  s.until += clock_type::now() - s.begun;
  s.begun = clock_type::now();
  asio::co_spawn(job->get_executor(), report(peer, s), [](auto...) {});
  co_await all_traffic(peer, s);
  print_line("over " + progress_text(s, peer));
  co_await all_up(peer);
  const bool slots = co_await use_every_slot(peer, s);
  co_await all_up(peer);
  co_await print_and_wait("stable");
  s.over = true;
  std::vector<std::byte> local(1), remote(1);
  co_await exchange(peer, local, remote);
  line = result_json(s, peer, slots);
  const bool is_empty = peer.stats().unexpected_bytes == 0;
  job->close();
  rendezvous->leave();
  job.reset();
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (int i = 0; i < 500 && !(object_counts::take() == object_counts{}); ++i) {
    timer.expires_after(std::chrono::milliseconds(20));
    co_await timer.async_wait(asio::use_awaitable);
  }
  co_await print_and_wait("closed");
  const object_counts left = object_counts::take();
  line += fmt::format(
      R"("contexts_left": {}, "domains_left": {}, "regions_left": {}, "channels_left": {}, )"
      R"("queues_left": {}, "pairs_left": {}}})",
      left.contexts, left.domains, left.regions, left.channels, left.queues, left.pairs);
  good = slots && is_empty && s.wrong == 0 && left == object_counts{};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: soak_traffic SECONDS SEED\n");
    return 2;
  }
  soak s;
  s.until = s.begun + std::chrono::seconds(std::atoi(argv[1]));
  s.seed = static_cast<std::uint32_t>(std::atoi(argv[2]));
  bool good = false;
  std::string line;
  asio::io_context context(1);
  asio::co_spawn(context, run(s, line, good), [&](std::exception_ptr failure) {
    s.over = true;
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      good = false;
      fmt::print(stderr, "{}\n", e.what());
      print_line(std::string("failed: ") + e.what());
    }
  });
  tandem::run(context);
  if (good)
    print_line(line);
  else if (!line.empty())
    print_line("failed: " + line);
  return good ? 0 : 1;
}
