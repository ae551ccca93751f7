#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <csignal>
#include <tandem/detail/descriptor_budget.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>

#include "process.hpp"
#include "rank_environment.hpp"
#include "reaper.hpp"
#include "relay.hpp"
#include "run.hpp"
#include "shutdown.hpp"
#include "signals.hpp"
#include "terminal.hpp"

namespace tandem::launcher {
namespace asio = boost::asio;
namespace {

/// A killed process closes its sockets before its parent is notified, so that a peer may be seen to
/// fail before it. Failures within this time are compared by `first_failure`.
constexpr std::chrono::milliseconds failure_window{500};
/// Time for the reaper to kill all remaining processes; exceeds its own limit.
constexpr std::chrono::seconds cleanup_timeout{8};
/// After a stop signal: time for a reader of our output that does not read.
constexpr std::chrono::seconds reader_timeout{1};

struct process {
  pid_t id = -1;
  bool running = false;
  std::size_t error_stream = 0;  ///< number in the relay
};

class job {
 public:
  explicit job(const launch_plan& plan)
      : plan_(plan),
        shutdown_(plan.grace, plan.kill_after),
        signals_(loop_),
        child_signals_(loop_),
        reserved_port_(loop_),
        events_(loop_),
        terminals_(loop_, {plan.output, plan.error_output}),
        step_timer_(loop_),
        cleanup_timer_(loop_),
        rest_timer_(loop_),
        reader_timer_(loop_),
        output_(loop_, scope_.handles(SIGPIPE)) {
    for (const int number : scope_.handled()) signals_.add(number);
  }
  int run();

 private:
  void reserve() const;
  void start_all();
  void start(int rank, const job_environment& job_env);
  asio::awaitable<void> wait_for_rest();
  asio::awaitable<void> supervise();
  asio::awaitable<void> watch_reaper();
  asio::awaitable<void> watch_signals();
  asio::awaitable<void> watch_terminals();
  asio::awaitable<void> reap_orphans();
  asio::awaitable<void> escalate_after(std::chrono::milliseconds wait);
  asio::awaitable<void> abandon_unread_output();
  void handle_event(const reaper_event& event);
  void end_remaining_ranks();
  void rank_ended(std::size_t rank, int wait_status);
  bool others_go_on(std::size_t rank, int wait_status);
  void handle(int signal);
  void stop(int signal);
  void apply(const shutdown_step& step);
  int status() const;
  std::string last_line() const;

  const launch_plan& plan_;
  signal_scope scope_;
  reaper reaper_;  ///< forked before any thread is started
  shutdown shutdown_;
  asio::io_context loop_;
  asio::signal_set signals_;
  asio::signal_set child_signals_;
  asio::ip::tcp::socket reserved_port_;
  asio::posix::stream_descriptor events_;  ///< from the reaper
  terminal_watch terminals_;
  asio::steady_timer step_timer_;     ///< for the next shutdown step
  asio::steady_timer cleanup_timer_;  ///< cancelled when the reaper reports `cleaned_up`
  asio::steady_timer rest_timer_;     ///< cancelled when processes of the ranks end or are killed
  asio::steady_timer reader_timer_;
  output_relay output_;
  std::vector<process> processes_;
  int running_ = 0;
  int lost_ = 0;  ///< ranks without which the job goes on
  int steps_planned_ = 0;
  int unkillable_ = 0;          ///< processes that cannot be killed
  bool is_empty_ = false;       ///< no process of the job is left
  bool rest_killed_ = false;    ///< ranks had ended, and what they had started had to be killed
  bool all_ended_ = false;      ///< all ranks have ended, and after a signal what they started
  bool done_ = false;           ///< and all of their output has been written
  bool is_cleaned_up_ = false;  ///< the reaper has killed all remaining processes
  bool reaper_lost_ = false;
  std::vector<rank_exit> failures_;
  std::vector<std::size_t> killed_;  ///< ranks still running at SIGKILL
  std::chrono::steady_clock::time_point first_failure_at_;
};

void job::start(int rank, const job_environment& job_env) {
  process& p = processes_.emplace_back();
  const std::string prefix = plan_.prefix ? fmt::format("[{}] ", rank) : "";
  pipe_ends output, error_output = make_pipe();
  if (plan_.prefix) {
    output = make_pipe();
    output_.add(std::move(output.read), plan_.output, prefix);
  }
  p.error_stream = output_.add(std::move(error_output.read), plan_.error_output, prefix);
  p.id = reaper_.start(plan_.command, rank_environment(plan_, rank, job_env),
                       plan_.prefix ? output.write.get() : plan_.output, error_output.write.get());
  p.running = true;
  ++running_;
}

/// Reserves descriptors: a pipe for each relayed stream of each rank, and the launcher's own (the
/// other pipe ends while a rank starts, the event loop, the terminals, the reaper's events).
void job::reserve() const {
  constexpr std::uint64_t own_descriptors = 12;
  const auto ranks = static_cast<std::uint64_t>(plan_.ranks);
  const std::uint64_t needed = ranks * (plan_.prefix ? 2 : 1) + own_descriptors;
  detail::reserve_descriptors({fmt::format("a job of {} ranks", ranks), needed, needed});
}

void job::start_all() {
  reserve();
  const std::uint16_t port = plan_.port != 0 ? plan_.port : reserve_port(reserved_port_);
  const job_environment job_env = job_environment::make(port);
  for (int rank = 0; rank < plan_.ranks; ++rank) start(rank, job_env);
  events_.assign(::fcntl(reaper_.descriptor(), F_DUPFD_CLOEXEC, 0));
}

int job::run() {
  output_.on_loss([this](int target, int number) {
    // The signal itself may arrive later, when the last line has been printed.
    if (number == EPIPE && scope_.handles(SIGPIPE)) return stop(SIGPIPE);
    std::string text =
        fmt::format("{}: {}: {}; further output of the ranks to it is lost\n", plan_.name,
                    target == plan_.error_output ? "standard error" : "standard output",
                    detail::errno_text(number));
    asio::co_spawn(loop_, output_.print(plan_.error_output, std::move(text)), asio::detached);
  });
  start_all();
  output_.start();
  asio::co_spawn(loop_, watch_signals(), asio::detached);
  asio::co_spawn(loop_, watch_terminals(), asio::detached);
  asio::co_spawn(loop_, watch_reaper(), asio::detached);
  // As process 1 of a container, the launcher adopts all orphans.
  if (::getpid() == 1) asio::co_spawn(loop_, reap_orphans(), asio::detached);
  loop_.run();
  return status();
}

asio::awaitable<void> job::watch_reaper() {
  while (!reaper_.early_events().empty()) {
    handle_event(reaper_.early_events().front());
    reaper_.early_events().pop_front();
  }
  for (;;) {
    reaper_event event{};
    const auto [failed, count] =
        co_await asio::async_read(events_, asio::buffer(&event, sizeof event), no_throw);
    if (failed == asio::error::operation_aborted) co_return;
    if (failed) break;
    handle_event(event);
  }
  // The reaper was killed, and the ranks with it; or it had no other way to kill all.
  reaper_lost_ = !all_ended_ && !shutdown_.is_killing();
  unkillable_ = reaper_.kill_orphans();
  end_remaining_ranks();
}

void job::handle_event(const reaper_event& event) {
  if (event.what == reaper_event::kind::empty) {
    is_empty_ = true;
    rest_timer_.cancel();
    return;
  }
  if (event.what == reaper_event::kind::cleaned_up) {
    unkillable_ = event.value;
    return end_remaining_ranks();
  }
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    const process& p = processes_[rank];
    if (p.running && p.id == event.process) return rank_ended(rank, event.value);
  }
}

/// Records ranks that have not been reported as ended as killed.
void job::end_remaining_ranks() {
  is_cleaned_up_ = true;
  cleanup_timer_.cancel();
  rest_timer_.cancel();
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    if (processes_[rank].running) rank_ended(rank, SIGKILL);
  }
}

void job::rank_ended(std::size_t rank, int wait_status) {
  processes_[rank].running = false;
  const auto now = std::chrono::steady_clock::now();
  const bool first = failures_.empty();
  // Later failures are caused by the first one, or by a stop signal.
  const bool caused = shutdown_.is_forced() || shutdown_.stop_signal() != 0 ||
                      (!first && now - first_failure_at_ > failure_window);
  if (exit_status(wait_status) != 0 && !caused && !others_go_on(rank, wait_status)) {
    failures_.push_back({static_cast<int>(rank), wait_status});
    if (first) {
      first_failure_at_ = now;
      apply(shutdown_.rank_failed());
    }
  }
  if (--running_ > 0) return;
  asio::co_spawn(loop_, supervise(), asio::detached);
}

/// Says so.
bool job::others_go_on(std::size_t rank, int wait_status) {
  const int left = plan_.ranks - lost_ - 1;
  if (plan_.min_survivors == 0 || left < plan_.min_survivors || !failures_.empty()) return false;
  ++lost_;
  std::string text = plan_.name + ": " + loss_text(rank, wait_status, left, plan_.ranks);
  asio::co_spawn(loop_, output_.print(plan_.error_output, std::move(text)), asio::detached);
  return true;
}

/// After a signal, the processes that the ranks have started have the same time to end as they.
asio::awaitable<void> job::wait_for_rest() {
  if (!shutdown_.has_signalled()) co_return;
  reaper_.report_empty();
  while (!is_empty_ && !is_cleaned_up_ && !shutdown_.is_killing()) {
    rest_timer_.expires_at(std::chrono::steady_clock::time_point::max());
    co_await rest_timer_.async_wait(no_throw);
  }
  rest_killed_ = !is_empty_ && killed_.empty() && !reaper_lost_;
}

/// Completes the job after all ranks have ended.
asio::awaitable<void> job::supervise() {
  co_await wait_for_rest();
  all_ended_ = true;
  ++steps_planned_;  // cancels a pending step
  step_timer_.cancel();
  if (!is_cleaned_up_)
    reaper_.kill_all();  // descendants of the ranks, which may hold their pipes open
  cleanup_timer_.expires_after(cleanup_timeout);
  while (!is_cleaned_up_ && cleanup_timer_.expiry() > std::chrono::steady_clock::now()) {
    co_await cleanup_timer_.async_wait(no_throw);
  }
  events_.close();
  if (shutdown_.stop_signal() != 0) asio::co_spawn(loop_, abandon_unread_output(), asio::detached);
  co_await output_.drain();
  output_.resume();
  if (shutdown_.stop_signal() != 0) asio::co_spawn(loop_, abandon_unread_output(), asio::detached);
  std::string line = last_line();
  if (!line.empty()) co_await output_.print(plan_.error_output, std::move(line));
  done_ = true;
  reader_timer_.cancel();
  signals_.cancel();
  child_signals_.cancel();
  terminals_.cancel();
}

asio::awaitable<void> job::abandon_unread_output() {
  reader_timer_.expires_after(reader_timeout);
  const auto [interrupted] = co_await reader_timer_.async_wait(no_throw);
  if (!interrupted) output_.abandon();
}

asio::awaitable<void> job::escalate_after(std::chrono::milliseconds wait) {
  const int step = ++steps_planned_;  // a later step cancels the wait of an earlier one
  step_timer_.expires_after(wait);
  co_await step_timer_.async_wait(no_throw);
  if (step == steps_planned_) apply(shutdown_.expired());
}

void job::apply(const shutdown_step& step) {
  if (step.signal == SIGKILL) {
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
      if (processes_[rank].running) killed_.push_back(rank);
    }
    reaper_.kill_all();
    rest_timer_.cancel();
  } else if (step.signal != 0) {
    reaper_.signal(step.signal);
    reaper_.signal(SIGCONT);  // a stopped rank could not handle it
  }
  if (step.wait) asio::co_spawn(loop_, escalate_after(*step.wait), asio::detached);
}

asio::awaitable<void> job::watch_signals() {
  while (!done_) {
    const auto [cancelled, number] = co_await signals_.async_wait(no_throw);
    if (!cancelled) handle(number);
  }
}

asio::awaitable<void> job::watch_terminals() {
  const bool gone = co_await terminals_.hung_up();
  if (gone && scope_.handles(SIGHUP)) stop(SIGHUP);
}

void job::handle(int signal) {
  if (is_stop_signal(signal)) return stop(signal);
  if (!all_ended_) reaper_.signal(signal);
  if (signal != SIGTSTP) return;
  stop_own_process();
  if (!all_ended_) reaper_.signal(SIGCONT);
}

void job::stop(int signal) {
  const shutdown_step step = shutdown_.stop_requested(signal);
  if (!all_ended_) return apply(step);
  // The ranks have ended: only a slow reader of the output is left, unless it is gone.
  if (signal != SIGPIPE) output_.abandon();
}

asio::awaitable<void> job::reap_orphans() {
  child_signals_.add(SIGCHLD);
  while (!done_) {
    siginfo_t found{};
    while (::waitid(P_ALL, 0, &found, WEXITED | WNOHANG | WNOWAIT) == 0 && found.si_pid != 0 &&
           found.si_pid != reaper_.id()) {
      ::waitpid(found.si_pid, nullptr, WNOHANG);
      found = {};
    }
    co_await child_signals_.async_wait(no_throw);
  }
}

int job::status() const {
  if (const std::optional<rank_exit> failed = first_failure(failures_)) {
    return exit_status(failed->wait_status);
  }
  if (shutdown_.stop_signal() != 0) return 128 + shutdown_.stop_signal();
  return output_.lost_output() ? 1 : 0;
}

std::string job::last_line() const {
  std::string text;
  if (reaper_lost_) {
    text = fmt::format("{}: the reaper, process {}, was killed, and all ranks with it\n",
                       plan_.name, reaper_.id());
  } else if (const std::optional<rank_exit> failed = first_failure(failures_)) {
    const process& p = processes_[static_cast<std::size_t>(failed->rank)];
    const std::string tail = output_.last_lines(p.error_stream);
    text = fmt::format("{}: rank {} failed first: {}{}{}\n", plan_.name, failed->rank,
                       exit_text(failed->wait_status),
                       tail.empty() ? "" : "; last lines of its standard error: ", tail);
  } else if (shutdown_.stop_signal() != 0) {
    text = fmt::format("{}: stopped by {}{}\n", plan_.name, signal_text(shutdown_.stop_signal()),
                       killed_text(killed_, rest_killed_));
  }
  if (unkillable_ > 0) {
    text +=
        fmt::format("{}: {} processes of the job cannot be killed; `ps` shows what they wait for\n",
                    plan_.name, unkillable_);
  }
  return text;
}

}  // namespace

int launch_local(const launch_plan& plan) {
  if (plan.ranks < 1) throw error(errc::bad_input, "no ranks to start");
  if (plan.command.empty()) throw error(errc::bad_input, "no command to start");
  job one(plan);
  return one.run();
}

}  // namespace tandem::launcher
