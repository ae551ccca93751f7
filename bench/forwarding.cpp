// A pipeline of two ranks with simulated devices: the time of a step that the library predicts from
// the bandwidth and latency of the link, and the time that it takes. The ranks are started by
// bench/forwarding; rank 0 prints a line of JSON for each cell.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cmath>
#include <optional>
#include <system_error>
#include <tandem/tandem.hpp>
#include <thread>

#include "cli/command_line.hpp"
#include "cli/console.hpp"
#include "cli/job_fabric.hpp"
#include "cli/text.hpp"
#include "forwarding_stage.hpp"

namespace tandem::bench {
namespace {

struct forwarding_options {
  std::vector<std::size_t> bytes{std::size_t{32} << 20, std::size_t{8} << 20};
  double forward_ms = 20, backward_ms = 40;
  int micro_batches = 8;
  int pings = 3;
  std::string schedules = "gpipe,one_f_one_b,zb_h1";
  std::string channel = "rails";
  std::string raw;  ///< ADDRESS:PORT of rank 0 for plain sockets; empty: not measured
  settings engine;
};

bool parse(std::span<const std::string> args, forwarding_options& o) {
  cli::command_line line({.command = "forwarding",
                          .arguments = "[options]",
                          .summary = "One rank of bench/forwarding.",
                          .examples = {}});
  line.bytes_list("bytes", o.bytes, "bytes of each message");
  line.option("forward-ms", o.forward_ms, 0.1, 1000, "duration of a forward");
  line.option("backward-ms", o.backward_ms, 0.1, 1000, "duration of a backward, both parts");
  line.option("micro-batches", o.micro_batches, 1, 1000, "micro-batches of a step");
  line.option("pings", o.pings, 1, 1000, "round trips that measure the link");
  line.option("schedules", o.schedules, "schedules, with commas");
  line.choice("channel", o.channel, cli::fabric_kinds(), "transport below the devices");
  line.option("raw", o.raw, "ADDRESS:PORT of rank 0 where plain sockets measure the link, too");
  line.engine_options(o.engine);
  return line.parse(args);
}

/// Half a round trip: of one byte, and of a message; and a message each way at once. 0: not
/// measured.
struct link_times {
  double byte_ms = 0, message_ms = 0, both_ms = 0;
};

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

void require(bool ok, const char* what) {
  if (!ok) throw std::system_error(errno, std::generic_category(), what);
}

/// A connected blocking socket.
class plain_socket {
 public:
  plain_socket(int rank, const std::string& where) {
    const std::size_t colon = where.rfind(':');
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(std::stoi(where.substr(colon + 1))));
    require(inet_pton(AF_INET, where.substr(0, colon).c_str(), &at.sin_addr) == 1, "--raw");
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    const int one = 1;
    int made = ::socket(AF_INET, SOCK_STREAM, 0);
    if (rank == 0) {
      ::setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
      require(::bind(made, address, sizeof(at)) == 0 && ::listen(made, 1) == 0, "a plain socket");
      fd_ = ::accept(made, nullptr, nullptr);
      ::close(made);
    } else {
      for (int attempt = 0; ::connect(made, address, sizeof(at)) != 0; ++attempt) {
        require(attempt < 200, "a plain socket cannot connect");
        ::close(made);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        made = ::socket(AF_INET, SOCK_STREAM, 0);
      }
      fd_ = made;
    }
    require(fd_ >= 0, "a plain socket");
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  }
  ~plain_socket() { ::close(fd_); }
  plain_socket(const plain_socket&) = delete;
  plain_socket& operator=(const plain_socket&) = delete;

  void send(std::span<const std::byte> message) {
    for (std::size_t done = 0; done < message.size();) {
      const ssize_t n = ::send(fd_, message.data() + done, message.size() - done, MSG_NOSIGNAL);
      require(n > 0, "a plain socket");
      done += static_cast<std::size_t>(n);
    }
  }
  void recv(std::span<std::byte> message) {
    for (std::size_t done = 0; done < message.size();) {
      const ssize_t n = ::recv(fd_, message.data() + done, message.size() - done, 0);
      require(n > 0, "a plain socket");
      done += static_cast<std::size_t>(n);
    }
  }

 private:
  int fd_ = -1;
};

double plain_ms(plain_socket& over, int rank, std::span<std::byte> message, int pings) {
  std::vector<double> samples;
  for (int i = 0; i <= pings; ++i) {  // the first one opens the congestion window
    const clock_type::time_point begin = clock_type::now();
    if (rank == 0) over.send(message);
    over.recv(message);
    if (rank != 0) over.send(message);
    if (i > 0) samples.push_back(ms_since(begin) / 2);
  }
  return median(samples);
}

double plain_both_ms(plain_socket& over, std::span<std::byte> message, int pings) {
  std::vector<std::byte> into(message.size());
  std::vector<double> samples;
  for (int i = 0; i <= pings; ++i) {
    const clock_type::time_point begin = clock_type::now();
    std::thread sender([&] { over.send(message); });
    over.recv(into);
    sender.join();
    if (i > 0) samples.push_back(ms_since(begin));
  }
  return median(samples);
}

constexpr int byte_pings = 50;

std::vector<link_times> measure_plain(int rank, const forwarding_options& o) {
  std::vector<link_times> found(o.bytes.size());
  if (o.raw.empty()) return found;
  plain_socket over(rank, o.raw);
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::vector<std::byte> message(o.bytes[i]);
    found[i] = {plain_ms(over, rank, std::span(message).first(1), byte_pings),
                plain_ms(over, rank, message, o.pings), plain_both_ms(over, message, o.pings)};
  }
  return found;
}

asio::awaitable<double> host_ms(communicator& world, mutable_view message, int pings) {
  std::vector<double> samples;
  const int peer = 1 - world.rank();
  for (int i = 0; i <= pings; ++i) {
    const clock_type::time_point begin = clock_type::now();
    if (world.rank() == 0) co_await world.send(peer, message);
    co_await world.recv(peer, message);
    if (world.rank() != 0) co_await world.send(peer, message);
    if (i > 0) samples.push_back(ms_since(begin) / 2);
  }
  co_return median(samples);
}

asio::awaitable<double> host_both_ms(communicator& world, mutable_view message, int pings) {
  std::vector<std::byte> memory(message.bytes);
  const mutable_view into(memory.data(), memory.size());
  std::vector<double> samples;
  const int peer = 1 - world.rank();
  for (int i = 0; i <= pings; ++i) {
    const clock_type::time_point begin = clock_type::now();
    co_await world.sendrecv(peer, message, peer, into);
    if (i > 0) samples.push_back(ms_since(begin));
  }
  co_return median(samples);
}

double cpu_ms() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

/// What both ranks have measured in a step; exchanged as numbers.
struct step_result {
  double ms = 0, cpu_ms = 0, wrong_bytes = 0;
  double waits_ms[2] = {};
};

asio::awaitable<step_result> run_step(communicator& world, const pipeline_schedule& all,
                                      timed_stage& stage) {
  wait_observer waits;
  step_result own;
  co_await barrier(world);
  const double cpu_before = cpu_ms();
  const clock_type::time_point begin = clock_type::now();
  co_await run_pipeline(world, all, stage, &waits);
  own.ms = ms_since(begin);
  own.cpu_ms = cpu_ms() - cpu_before;
  own.wrong_bytes = static_cast<double>(stage.wrong_bytes());
  own.waits_ms[world.rank()] = waits.take_ms();
  const mutable_view longest(&own.ms, sizeof(double));
  co_await all_reduce(world, longest, data_type::float64, reduce_op::maximum);
  const mutable_view sums(&own.cpu_ms, 4 * sizeof(double));
  co_await all_reduce(world, sums, data_type::float64, reduce_op::sum);
  co_return own;
}

std::int64_t ns_of(double ms) {
  return std::llround(ms * 1e6);
}

/// The faster of both: what the link can do.
link_times faster(const link_times& plain, const link_times& host) {
  return plain.message_ms > 0 && plain.message_ms < host.message_ms ? plain : host;
}

class rank_run {
 public:
  rank_run(communicator& world, const forwarding_options& o, test::cuda_double& gpus,
           std::vector<link_times> plain)
      : world_(world), o_(o), gpus_(gpus), plain_(std::move(plain)) {}

  asio::awaitable<void> run() {
    for (std::size_t i = 0; i < o_.bytes.size(); ++i) {
      link_times host;
      std::vector<std::byte> message(o_.bytes[i]);
      const mutable_view whole(message.data(), message.size());
      host.byte_ms = co_await host_ms(world_, whole.part(0, 1), byte_pings);
      host.message_ms = co_await host_ms(world_, whole, o_.pings);
      host.both_ms = co_await host_both_ms(world_, whole, o_.pings);
      message = {};
      for (const std::string& name : cli::split_commas(o_.schedules)) {
        co_await run_cell(o_.bytes[i], plain_[i], host, find_pipeline_kind(name));
      }
    }
  }
  bool is_right() const { return is_right_; }

 private:
  asio::awaitable<void> run_cell(std::size_t bytes, link_times plain, link_times host,
                                 pipeline_kind kind) {
    const int forward = static_cast<int>(ns_of(o_.forward_ms));
    const int half = static_cast<int>(ns_of(o_.backward_ms / 2));
    const std::vector<stage_cost> costs(2, {forward, half, half});
    const link_times link = faster(plain, host);
    const pipeline_schedule all =
        make_schedule({.kind = kind, .ranks = 2, .micro_batches = o_.micro_batches});
    const pipeline_prediction predicted =
        predict(all, costs, {ns_of(link.message_ms - link.byte_ms), ns_of(link.byte_ms)});
    const auto ns = [](int count) { return std::chrono::nanoseconds(count); };
    timed_stage stage(world_.rank(), bytes, {ns(forward), ns(half), ns(half)}, gpus_,
                      world_.get_executor());
    // All bytes of a short step are checked first, which also allocates what a call needs.
    const pipeline_schedule checked =
        make_schedule({.kind = kind, .ranks = 2, .micro_batches = std::min(o_.micro_batches, 3)});
    stage.begin_round(true);
    co_await run_step(world_, checked, stage);
    stage.begin_round(false);
    const step_result measured = co_await run_step(world_, all, stage);
    is_right_ = is_right_ && measured.wrong_bytes == 0;
    if (world_.rank() != 0) co_return;
    const auto ms = [](std::int64_t slots) { return static_cast<double>(slots) / 1e6; };
    const std::vector<std::int64_t>& waits = predicted.simulated.message_slots;
    fmt::print(
        "{{\"op\": \"forwarding\", \"channel\": \"tandem\", \"ranks\": 2, \"transport\": \"{}\", "
        "\"devices\": \"simulated\", \"bytes\": {}, \"schedule\": \"{}\", \"micro_batches\": {}, "
        "\"forward_ms\": {}, \"backward_ms\": {}, \"plain_byte_ms\": {:.4f}, \"plain_ms\": {:.4f}, "
        "\"plain_both_ms\": {:.4f}, \"host_both_ms\": {:.4f}, \"host_byte_ms\": {:.4f}, "
        "\"host_ms\": {:.4f}, \"predicted_ms\": {:.4f}, \"compute_ms\": "
        "{:.4f}, \"bubble_ms\": {:.4f}, \"link_ms\": {:.4f}, \"decides\": \"{}\", "
        "\"predicted_waits_ms\": [{:.4f}, {:.4f}], \"measured_ms\": {:.4f}, \"idle_ms\": [{:.4f}, "
        "{:.4f}], \"cpu_ms\": {:.4f}, \"wrong_bytes\": {}}}\n",
        o_.channel, bytes, name(kind), o_.micro_batches, o_.forward_ms, o_.backward_ms,
        plain.byte_ms, plain.message_ms, plain.both_ms, host.both_ms, host.byte_ms, host.message_ms,
        ms(predicted.simulated.slots), ms(predicted.compute_slots), ms(predicted.bubble_slots),
        ms(predicted.link_slots), name(predicted.decides()), ms(waits[0]), ms(waits[1]),
        measured.ms, measured.waits_ms[0], measured.waits_ms[1], measured.cpu_ms,
        static_cast<std::uint64_t>(measured.wrong_bytes));
    std::fflush(stdout);
  }

  communicator& world_;
  const forwarding_options& o_;
  test::cuda_double& gpus_;
  const std::vector<link_times> plain_;
  bool is_right_ = true;
};

asio::awaitable<bool> run_rank(launch_info who, const forwarding_options& o,
                               test::cuda_double& gpus, std::vector<link_times> plain) {
  const std::shared_ptr<store> meeting = co_await store::meet(who, o.engine);
  std::unique_ptr<fabric> over = co_await cli::make_fabric(o.channel, meeting, o.engine);
  const std::unique_ptr<fabric> job = devices::make_fabric(std::move(over), o.engine);
  communicator world(*job, o.engine);
  rank_run all(world, o, gpus, std::move(plain));
  co_await all.run();
  co_await barrier(world);
  job->close();
  meeting->leave();
  co_return all.is_right();
}

int start(std::span<const std::string> args) {
  forwarding_options o;
  if (!parse(args, o)) return cli::success;
  const std::optional<launch_info> who = find_launch();
  if (!who || who->size != 2) throw std::runtime_error("two ranks are started by bench/forwarding");
  // Never destroyed: the library keeps its devices until the process ends.
  auto& gpus =
      *new test::cuda_double(test::cuda_double::options{.devices = 1, .concurrent_copies = true});
  const std::vector<link_times> plain = measure_plain(who->rank, o);
  asio::io_context loop(1);
  std::exception_ptr failure;
  bool is_right = false;
  asio::co_spawn(loop, run_rank(*who, o, gpus, plain),
                 [&failure, &is_right](std::exception_ptr why, bool found) {
                   failure = why;
                   is_right = found;
                 });
  run(loop, spin_policy_for(who->local_size, o.engine.spin));
  if (failure) std::rethrow_exception(failure);
  for (const std::string& misuse : gpus.violations()) throw std::runtime_error(misuse);
  return is_right ? cli::success : cli::failure;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  try {
    return tandem::bench::start(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "forwarding: %s\n", tandem::describe(failure).c_str());
    return 1;
  }
}
