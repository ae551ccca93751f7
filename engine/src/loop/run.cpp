#include <sched.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <tandem/async.hpp>
#include <tandem/detail/event_loop.hpp>
#include <tandem/detail/poller.hpp>
#include <thread>
#include <utility>

namespace tandem {

using clock = std::chrono::steady_clock;

namespace {

/// Wake-up latency, which is not part of the time until the event: 20 to 60 us, more if a
/// hypervisor has to start the core.
constexpr std::chrono::microseconds wakeup_latency{50};
/// The budget never drops below this fraction. If both ends of a long transfer stopped spinning,
/// each would have to wake the other for every ring of data, which takes longer than any spin: two
/// to five times slower, permanently. With a short spin each finds the other still active, and it
/// costs less than a sleep.
constexpr int min_budget_divisor = 8;
/// How far short sleeps raise it. Ranks that wait for each other in a ring add their wake-ups, so
/// that each sleeps longer than it ever spins, permanently: a ring all_reduce of 256 KiB by eight
/// ranks took 400 to 800 us with a spin of 50 us, 95 us with 1 ms (16 cores of a Xeon).
constexpr int max_budget_factor = 16;
/// Most short sleeps between two spins of a crowded loop.
constexpr int max_short_sleeps = 255;

}  // namespace

void spin_budget::caught() noexcept {
  ++stats_.caught;
  max_sleeps_ /= 2;
  budget_ = std::max<std::chrono::nanoseconds>(budget_, policy_.max_spin);
}

void spin_budget::missed(std::chrono::nanoseconds slept) noexcept {
  using std::chrono::nanoseconds;
  ++stats_.missed;
  if (policy_.crowded) return missed_crowded(slept);
  const nanoseconds usual = policy_.max_spin;
  if (slept <= usual + wakeup_latency) {
    budget_ = std::max(budget_, usual);
  } else if (slept <= max_budget_factor * usual) {
    budget_ = std::min(std::max(2 * budget_, usual), max_budget_factor * usual);
  } else {
    budget_ = std::max(budget_ / 2, usual / min_budget_divisor);
  }
}

/// If others share the core, sleeping is what lets them run. A spin that finds nothing costs more
/// than its time: on Linux 6.18 a process that yields gives up what it has not used of its slice,
/// so it waits for others after it has been woken. Messages in turn between two pairs of processes
/// on two cores took 300 us with spins, 50 us without.
void spin_budget::missed_crowded(std::chrono::nanoseconds slept) noexcept {
  if (budget_.count() > 0) {
    max_sleeps_ = std::min(2 * max_sleeps_ + 1, max_short_sleeps);
    sleeps_ = max_sleeps_;
    budget_ = {};
  } else if (slept <= policy_.max_spin && sleeps_-- <= 1) {
    budget_ = policy_.max_spin;
  }
}

namespace {

/// Rounds of the poller per check of the kernel's queue and of posted work: another system call in
/// each round would double its cost. Also for rounds that found something: that is often the first
/// half of an exchange, and a check before the second half raised one of 1 KiB between two ranks
/// over TCP from 7.2 us to 8.7.
constexpr int rounds_per_kernel_poll = 4;

/// Polls of memory pollables between two rounds, about a microsecond.
constexpr int max_memory_polls = 64;
/// The same while a completion is expected from the round itself: a copy engine takes some us, a
/// query of its driver one.
constexpr int max_expecting_memory_polls = 8;
/// Memory events often come in quick succession (a reply to a reply): empty polls to wait for the
/// next one, and the maximum of polls before other handlers run.
constexpr int max_empty_follow_up_polls = 200;
constexpr int max_follow_up_polls = 1000;
/// Time limit of such follow-up polling if others share the core, since one of them may keep it far
/// longer, and of further rounds after one that found something.
constexpr std::chrono::microseconds max_follow_up_time{20};

/// Runs rounds of the poller as a handler of the context: completions are then on the executor, and
/// a dispatch from them runs immediately. It may run long after the spin that posted it, if many
/// other handlers are queued, so its results are stored in the poller.
struct polling_handler {
  asio::io_context* context;
  poller* sources;
  bool crowded;
  /// Handlers that are queued may queue others that end the wait: those first. Four ranks on two
  /// cores that reduced 8 bytes in turn with 15 us of work took 110 us each time, not 30, while the
  /// last one to call polled for others before it returned from its own call.
  bool goes_last;
  bool polls_once;  ///< also after the end of the wait

  void operator()() const {
    if (goes_last) {
      return asio::post(*context, polling_handler{context, sources, crowded, false, polls_once});
    }
    const clock::time_point end = clock::now() + max_follow_up_time;
    bool found = sources->poll_handler.found;
    int round = 0;
    while (!is_over() || (polls_once && round == 0)) {
      if (crowded ? poll_crowded() : sources->poll() || spin_on_memory()) found = true;
      if (++round >= rounds_per_kernel_poll || (found && stops_early(end))) break;
    }
    if (found && !crowded) poll_follow_ups();
    sources->poll_handler.found = found;
    sources->poll_handler.is_posted = false;
  }

  bool is_over() const {
    const std::atomic<bool>* const until = sources->poll_handler.until;
    return until != nullptr && until->load(std::memory_order_acquire);
  }

  /// Memory pollables have their own follow-up polling (`poll_follow_ups`), unless a completion is
  /// expected from the rounds; a crowded loop polls in `poll_crowded`.
  bool stops_early(clock::time_point end) const {
    return crowded || (sources->memory_pollables() > 0 && !sources->expects_completion()) ||
           context->stopped() || clock::now() >= end;
  }

  /// Yields the core between polls, so that the processes that produce the events can run.
  bool poll_crowded() const {
    const clock::time_point end = clock::now() + max_follow_up_time;
    bool found = sources->poll();
    do {
      sched_yield();
      found = sources->poll_memory() || found;
    } while (sources->memory_pollables() > 0 && !is_over() && clock::now() < end);
    return found;
  }

  bool spin_on_memory() const {
    const int each = sources->memory_pollables();
    const int max_polls =
        sources->expects_completion() ? max_expecting_memory_polls : max_memory_polls;
    for (int polls = 0; each > 0 && polls < max_polls && !is_over(); polls += each) {
      if (sources->poll_memory()) return true;
    }
    return false;
  }

  void poll_follow_ups() const {
    const int each = sources->memory_pollables();
    const int max_empty =
        sources->expects_completion() ? max_expecting_memory_polls : max_empty_follow_up_polls;
    int empty = 0;
    for (int polls = 0; each > 0 && polls < max_follow_up_polls && !is_over(); polls += each) {
      empty = sources->poll_memory() ? 0 : empty + each;
      if (empty >= max_empty) return;
    }
  }
};

/// Handlers run in a row: an endless chain of handlers must not starve the pollables.
constexpr int handlers_per_turn = 64;

/// Returns the number of handlers that ran.
int poll_some(asio::io_context& context) {
  int ran = 0;
  while (ran < handlers_per_turn && context.poll_one() > 0) ++ran;
  return ran;
}

/// The same until the polling handler has run; handlers queued behind it wait for the next turn.
/// Checking for more with nothing queued would be a system call.
int poll_until_handler_ran(asio::io_context& context, const poller& sources) {
  int ran = 0;
  while (sources.poll_handler.is_posted && ran < handlers_per_turn && context.poll_one() > 0) ++ran;
  return ran;
}

}  // namespace

int cores_for_loops() noexcept {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return cores > 1 ? cores : 0;
}

spin_policy spin_policy_for(int loops_on_host, std::chrono::microseconds max_spin) noexcept {
  const int cores = cores_for_loops();
  return {.max_spin = max_spin, .crowded = cores > 0 && loops_on_host > cores};
}

namespace detail {

event_loop::event_loop(asio::io_context& context, spin_policy policy)
    : context_(context),
      policy_(policy),
      budget_(policy),
      sources_(poller::of(context.get_executor())) {
  sources_.require_own_process();
  sources_.thread().set(&loop_thread::any);
  sources_.set_polling(true);
  sources_.set_core(policy.max_spin.count() > 0 && !policy.crowded);
}

event_loop::~event_loop() {
  sources_.set_polling(false);
  sources_.arm();
  sources_.thread().set(nullptr);
}

/// What the loop waits for, while it runs.
struct event_loop::waiting_for {
  waiting_for(poller& of, const std::atomic<bool>& flag) noexcept : sources(of) {
    sources.poll_handler.until = &flag;
  }
  ~waiting_for() { sources.poll_handler.until = nullptr; }
  waiting_for(const waiting_for&) = delete;
  waiting_for& operator=(const waiting_for&) = delete;

  poller& sources;
};

/// True if anything happened within that time.
bool event_loop::spin(std::chrono::nanoseconds for_time) {
  const clock::time_point end = clock::now() + for_time;
  int polls = 0;
  bool is_first = true;
  int own_runs = 1;
  sources_.poll_handler.found = false;
  do {
    if (!sources_.poll_handler.is_posted) {
      sources_.poll_handler.is_posted = true;
      const bool goes_last = policy_.crowded && std::exchange(is_first, false);
      const bool polls_once = !policy_.crowded || for_time.count() == 0;
      own_runs = goes_last ? 2 : 1;
      asio::post(context_,
                 polling_handler{&context_, &sources_, policy_.crowded, goes_last, polls_once});
    }
    const int ran = poll_until_handler_ran(context_, sources_);
    if (sources_.poll_handler.found || ran > own_runs) return true;
    if (context_.stopped()) return false;
    const bool yields = policy_.polls_per_yield > 0 && !policy_.crowded;
    if (yields && ++polls % policy_.polls_per_yield == 0) sched_yield();
  } while (clock::now() < end);
  return false;
}

void event_loop::poll() {
  const std::atomic<bool> is_done(true);
  const waiting_for flag(sources_, is_done);
  spin({});
}

void event_loop::run_until(const std::atomic<bool>& is_done, time_point limit) {
  const waiting_for flag(sources_, is_done);
  const auto is_over = [&] {
    return is_done.load(std::memory_order_acquire) || context_.stopped();
  };
  while (!is_over()) {
    const std::chrono::nanoseconds spin_time = budget_.next();
    if (spin_time < std::chrono::microseconds(1)) {
      poll_some(context_);
    } else if (spin(spin_time)) {
      budget_.caught();
      continue;
    }
    if (is_over()) break;
    const clock::time_point sleep_start = clock::now();
    if (sleep_start >= limit) break;
    sources_.arm();
    if (limit == time_point::max()) {
      context_.run_one();
    } else {
      context_.run_one_until(limit);
    }
    budget_.missed(clock::now() - sleep_start);
  }
}

}  // namespace detail

spin_stats run(asio::io_context& context, spin_policy policy) {
  detail::event_loop loop(context, policy);
  poller::of(context.get_executor()).thread().set(&detail::mark_of_this_thread());
  loop.run_until(std::atomic<bool>(false));
  return loop.stats();
}

}  // namespace tandem
