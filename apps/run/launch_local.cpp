#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <tandem/detail/descriptor_budget.hpp>
#include <tandem/error.hpp>
#include <tandem/trust.hpp>

#include "output.hpp"
#include "process.hpp"
#include "run.hpp"

namespace tandem::launcher {
namespace asio = boost::asio;
namespace {

constexpr auto no_throw = asio::as_tuple(asio::use_awaitable);

/// A killed process closes its sockets before its parent can see its end: a rank that lost it may
/// be seen to fail first. Failures that come together are judged together.
constexpr std::chrono::milliseconds together{500};

/// A free port of loopback, kept for rank 0: bound and not listening, it is given to nobody else by
/// the kernel, and a listener that allows reuse of the address, as servers do, shares it.
std::uint16_t reserve_port(asio::ip::tcp::socket& keeper) {
  using asio::ip::tcp;
  keeper.open(tcp::v4());
  ::fcntl(keeper.native_handle(), F_SETFD, FD_CLOEXEC);
  keeper.set_option(tcp::socket::reuse_address(true));
  keeper.bind(tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  return keeper.local_endpoint().port();
}

/// Tells two jobs, and two lives of one job, apart.
std::string job_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

/// Lets only the ranks of this job into it.
std::string job_secret() {
  trust::digest bytes;
  trust::random_bytes(bytes);
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", static_cast<int>(b));
  wipe(bytes);
  return text;
}

/// What all ranks of one job get.
struct job_environment {
  std::uint16_t port = 0;
  std::string name = job_name();
  std::string secret = job_secret();
};

/// A user's own secret or certificates come first; variables are no command line, which everybody
/// on the machine may read.
void give_secret(std::map<std::string, std::string>& variables, const std::string& generated) {
  for (const char* const name :
       {"TANDEM_SECRET", "TANDEM_SECRET_FILE", "TANDEM_CERTIFICATE_FILE"}) {
    const auto found = variables.find(name);
    if (found != variables.end() && !found->second.empty() && found->second != "none") return;
  }
  variables["TANDEM_SECRET"] = generated;
}

std::vector<std::string> rank_environment(const launch_plan& plan, int rank,
                                          const job_environment& of_job) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  // Another launcher above us may have said how its own agent serves the store; ours has none.
  std::erase_if(variables, [](const auto& v) { return v.first.starts_with("TORCHELASTIC_"); });
  for (const auto& [name, value] : plan.environment) variables[name] = value;
  const std::string size_text = std::to_string(plan.ranks), rank_text = std::to_string(rank);
  for (const char* const name : {"TANDEM_RANK", "TANDEM_LOCAL_RANK", "RANK", "LOCAL_RANK"}) {
    variables[name] = rank_text;
  }
  for (const char* const name :
       {"TANDEM_SIZE", "TANDEM_LOCAL_SIZE", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}) {
    variables[name] = size_text;
  }
  variables["TANDEM_RENDEZVOUS"] = fmt::format("127.0.0.1:{}", of_job.port);
  variables["TANDEM_JOB"] = of_job.name;
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["MASTER_PORT"] = std::to_string(of_job.port);
  give_secret(variables, of_job.secret);
  std::vector<std::string> texts;
  for (const auto& [name, value] : variables) texts.push_back(name + "=" + value);
  return texts;
}

/// One of a rank's two streams on its way to the launcher's own output.
struct output_stream {
  output_stream(asio::io_context& loop, owned_fd from, int to, std::string prefix)
      : pipe(loop, from.release()), target(to), lines(std::move(prefix)) {}
  asio::posix::stream_descriptor pipe;
  int target;
  line_prefixer lines;
  last_words words;
  std::array<char, 65536> bytes;
};

struct process {
  pid_t id = -1;
  bool running = false;
  std::vector<std::unique_ptr<output_stream>> streams;  ///< standard error is the last
};

class job {
 public:
  explicit job(const launch_plan& plan)
      : plan_(plan),
        endings_(loop_, SIGCHLD),
        signals_(loop_),
        port_keeper_(loop_),
        patience_(loop_),
        drained_(loop_) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) signals_.add(number);
  }
  ~job();
  int run();

 private:
  void reserve() const;
  void start_all();
  void start(int rank, const job_environment& of_job);
  asio::awaitable<void> supervise();
  asio::awaitable<void> pass_signals();
  asio::awaitable<void> end_the_rest(std::chrono::milliseconds grace);
  asio::awaitable<void> relay(output_stream& stream);
  asio::awaitable<void> drain();
  asio::awaitable<void> print(int target, std::string text);
  void reap();
  void begin_end(std::chrono::milliseconds grace);
  std::string last_line(const rank_end& failed) const;

  const launch_plan& plan_;
  const std::uint64_t soft_limit_of_ranks_ = detail::read_limit(RLIMIT_NOFILE).soft;
  process_group group_;
  asio::io_context loop_;
  /// Writes block while the reader of our output is slow; here they hold up only the ranks that
  /// write.
  asio::thread_pool writer_{1};
  asio::signal_set endings_;
  asio::signal_set signals_;
  asio::ip::tcp::socket port_keeper_;
  asio::steady_timer patience_;  ///< with the ranks that live on after a failure
  asio::steady_timer drained_;   ///< cancelled when the last stream has ended
  std::vector<process> processes_;
  int running_ = 0;
  int relays_ = 0;
  int stops_asked_ = 0;
  int endings_begun_ = 0;
  std::vector<rank_end> failures_;  ///< with ranks that ended well at about the same time
  std::chrono::steady_clock::time_point first_failure_at_;
  bool told_to_end_ = false;
};

job::~job() {
  group_.signal(SIGKILL);
  for (const process& p : processes_) {
    while (p.running && ::waitpid(p.id, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void job::start(int rank, const job_environment& of_job) {
  process& p = processes_.emplace_back();
  const std::string prefix = fmt::format("[{}] ", rank);
  pipe_ends output, error_output = make_pipe();
  if (plan_.prefix) {
    output = make_pipe();
    p.streams.push_back(
        std::make_unique<output_stream>(loop_, std::move(output.read), plan_.output, prefix));
  }
  p.streams.push_back(std::make_unique<output_stream>(loop_, std::move(error_output.read),
                                                      plan_.error_output, prefix));
  // The limit of the launcher is raised for its own pipes: a rank has the one its user gave it.
  const scoped_soft_limit as_given(soft_limit_of_ranks_);
  p.id = start_process(group_, plan_.command, rank_environment(plan_, rank, of_job),
                       plan_.prefix ? output.write.get() : plan_.output, error_output.write.get());
  p.running = true;
  ++running_;
}

/// A pipe for each stream of each rank that is passed on; while one starts, the other ends and
/// /dev/null.
void job::reserve() const {
  const auto ranks = static_cast<std::uint64_t>(plan_.ranks);
  const std::uint64_t needed = ranks * (plan_.prefix ? 2 : 1) + 4;
  detail::reserve_descriptors({fmt::format("a job of {} ranks", ranks), needed, needed});
}

void job::start_all() {
  reserve();
  job_environment of_job;
  of_job.port = plan_.port != 0 ? plan_.port : reserve_port(port_keeper_);
  for (int rank = 0; rank < plan_.ranks; ++rank) start(rank, of_job);
}

int job::run() {
  start_all();
  for (process& p : processes_) {
    for (const auto& stream : p.streams) {
      ++relays_;
      asio::co_spawn(loop_, relay(*stream), asio::detached);
    }
  }
  asio::co_spawn(loop_, pass_signals(), asio::detached);
  std::exception_ptr broken;
  asio::co_spawn(loop_, supervise(), [&broken](std::exception_ptr e) { broken = e; });
  loop_.run();
  writer_.join();
  if (broken) std::rethrow_exception(broken);
  const std::optional<rank_end> failed = first_failure(failures_);
  return failed ? exit_status(failed->wait_status) : 0;
}

asio::awaitable<void> job::supervise() {
  reap();
  while (running_ > 0) {
    co_await endings_.async_wait(no_throw);
    reap();
  }
  group_.signal(SIGKILL);  // what the ranks left behind, and what holds their pipes open
  signals_.cancel();
  ++endings_begun_;  // an ending that still waits has nothing left to do
  patience_.cancel();
  co_await drain();
  const std::optional<rank_end> failed = first_failure(failures_);
  if (failed) co_await print(plan_.error_output, last_line(*failed));
}

void job::reap() {
  std::vector<rank_end> ended;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    process& p = processes_[rank];
    int status = 0;
    if (!p.running || ::waitpid(p.id, &status, WNOHANG) != p.id) continue;
    p.running = false;
    --running_;
    ended.push_back({static_cast<int>(rank), status});
  }
  const auto now = std::chrono::steady_clock::now();
  const bool first = failures_.empty();
  if (first && !first_failure(ended)) return;
  if (first) first_failure_at_ = now;
  // Later ones fail because the first did, or because they were told to end.
  if (!first && (told_to_end_ || now - first_failure_at_ > together)) return;
  failures_.insert(failures_.end(), ended.begin(), ended.end());
  if (first) begin_end(plan_.grace);
}

void job::begin_end(std::chrono::milliseconds grace) {
  asio::co_spawn(loop_, end_the_rest(grace), asio::detached);
}

asio::awaitable<void> job::end_the_rest(std::chrono::milliseconds grace) {
  const int mine = ++endings_begun_;
  patience_.expires_after(grace);  // a later ending interrupts an earlier one's wait
  co_await patience_.async_wait(no_throw);
  if (mine != endings_begun_) co_return;
  told_to_end_ = true;
  group_.signal(SIGTERM);
  patience_.expires_after(plan_.kill_after);
  co_await patience_.async_wait(no_throw);
  if (mine == endings_begun_) group_.signal(SIGKILL);
}

asio::awaitable<void> job::pass_signals() {
  for (;;) {
    const auto [stopped, number] = co_await signals_.async_wait(no_throw);
    if (stopped) co_return;
    group_.signal(number);
    const bool to_stop = number == SIGINT || number == SIGTERM || number == SIGHUP;
    if (to_stop && ++stops_asked_ == 2) begin_end(std::chrono::milliseconds(0));
  }
}

asio::awaitable<void> job::relay(output_stream& stream) {
  bool open = true;
  while (open) {
    const auto [failed, count] =
        co_await stream.pipe.async_read_some(asio::buffer(stream.bytes), no_throw);
    open = !failed;
    const std::string_view bytes(stream.bytes.data(), count);
    stream.words.feed(bytes);
    std::string text(bytes);
    if (plan_.prefix) text = stream.lines.feed(bytes);
    if (plan_.prefix && !open) text += stream.lines.finish();
    if (!text.empty()) co_await print(stream.target, std::move(text));
  }
  if (--relays_ == 0) drained_.cancel();
}

/// Waits for the last output. A process that left the group may hold a pipe open: it is not waited
/// for.
asio::awaitable<void> job::drain() {
  drained_.expires_after(std::chrono::seconds(1));
  if (relays_ > 0) co_await drained_.async_wait(no_throw);
  for (process& p : processes_) {
    for (const auto& stream : p.streams) stream->pipe.cancel();
  }
}

/// Writes all of it on the writer's thread. A reader who went away takes nothing more.
asio::awaitable<void> job::print(int target, std::string text) {
  const auto start = [this](auto handler, int to, std::string what) {
    auto back = asio::get_associated_executor(handler);
    auto work = asio::make_work_guard(back);
    asio::post(writer_, [handler = std::move(handler), work = std::move(work), to,
                         what = std::move(what)]() mutable {
      std::string_view rest(what);
      while (!rest.empty()) {
        const ssize_t written = ::write(to, rest.data(), rest.size());
        if (written < 0 && errno != EINTR) break;
        if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
      }
      asio::post(work.get_executor(), std::move(handler));
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(start, asio::use_awaitable,
                                                                       target, std::move(text));
}

std::string job::last_line(const rank_end& failed) const {
  const process& p = processes_[static_cast<std::size_t>(failed.rank)];
  const std::string words = p.streams.back()->words.text();
  return fmt::format("{}: rank {} failed first: {}{}{}\n", plan_.name, failed.rank,
                     how_it_ended(failed.wait_status),
                     words.empty() ? "" : "; its last words: ", words);
}

}  // namespace

int launch_local(const launch_plan& plan) {
  if (plan.ranks < 1) throw error(errc::bad_input, "no ranks to start");
  if (plan.command.empty()) throw error(errc::bad_input, "no command to start");
  job one(plan);
  return one.run();
}

std::vector<std::string> self_command(std::span<const std::string> args) {
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), args.begin(), args.end());
  return command;
}

}  // namespace tandem::launcher
