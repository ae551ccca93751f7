#include <sched.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <tandem/poller.hpp>
#include <tandem/run.hpp>
#include <thread>

namespace tandem {

using clock = std::chrono::steady_clock;

void spin_budget::caught() noexcept {
  ++stats_.caught;
  budget_ = policy_.most;
}

namespace {

/// Wake-up latency, which is not part of the time until the event: 20 to 60 us, more if a
/// hypervisor has to start the core.
constexpr std::chrono::microseconds waking{50};
/// The budget never drops below this fraction. If both ends of a long transfer stopped spinning,
/// each would have to wake the other for every ring of data, which takes longer than any spin: two
/// to five times slower, permanently. With a short spin each finds the other still active, and it
/// costs less than a sleep.
constexpr int shares_left = 8;

}  // namespace

/// If others share the core, sleeping is what lets them run: there the budget drops to zero.
void spin_budget::missed(std::chrono::nanoseconds slept) noexcept {
  using std::chrono::nanoseconds;
  ++stats_.missed;
  if (slept <= policy_.most + (policy_.crowded ? nanoseconds(0) : waking)) {
    budget_ = policy_.most;
  } else {
    const nanoseconds left = policy_.crowded ? nanoseconds(0) : policy_.most / shares_left;
    budget_ = std::max(budget_ / 2, left);
  }
}

namespace {

/// Rounds of the poller per check of the kernel's queue and of posted work: another system call in
/// each round would double its cost. Also for rounds that found something: that is often the first
/// half of an exchange, and a check before the second half raised one of 1 KiB between two ranks
/// over TCP from 7.2 us to 8.7.
constexpr int rounds_per_look = 4;

/// Polls of memory pollables between two rounds, about a microsecond.
constexpr int memory_looks = 64;
/// The same while a completion is expected from the round itself: a copy engine takes some us, a
/// query of its driver one.
constexpr int hurried_memory_looks = 8;
/// Memory events often come in quick succession (a reply to a reply): empty polls to wait for the
/// next one, and the maximum of polls before other handlers run.
constexpr int looks_after_found = 200;
constexpr int most_looks_after_found = 1000;
/// Time limit of such follow-up polling if others share the core, since one of them may keep it far
/// longer, and of further rounds after one that found something.
constexpr std::chrono::microseconds longest_follow{20};

/// Runs rounds of the poller as a handler of the context: completions are then on the executor, and
/// a dispatch from them runs immediately. It may run long after the spin that posted it, if many
/// other handlers are queued, so its results are stored in the poller.
struct poll_links {
  asio::io_context* context;
  poller* links;
  bool crowded;

  void operator()() const {
    const clock::time_point end = clock::now() + longest_follow;
    bool found = links->look.found;
    for (int round = 0; round < rounds_per_look && !(found && leaves_early(end)); ++round) {
      if (crowded ? look_among_others() : links->poll() || await_memory()) found = true;
    }
    if (found && !crowded) follow_memory();
    links->look.found = found;
    links->look.is_posted = false;
  }

  /// Memory pollables have their own follow-up polling (`follow_memory`), unless a completion is
  /// expected from the rounds; a crowded loop polls in `look_among_others`.
  bool leaves_early(clock::time_point end) const {
    return crowded || (links->memory_links() > 0 && !links->is_hurried()) || context->stopped() ||
           clock::now() >= end;
  }

  /// Yields the core between polls, so that the processes that produce the events can run.
  bool look_among_others() const {
    const clock::time_point end = clock::now() + longest_follow;
    bool found = links->poll();
    do {
      sched_yield();
      found = links->poll_memory() || found;
    } while (links->memory_links() > 0 && clock::now() < end);
    return found;
  }

  bool await_memory() const {
    const int each = links->memory_links();
    const int max_polls = links->is_hurried() ? hurried_memory_looks : memory_looks;
    for (int polls = 0; each > 0 && polls < max_polls; polls += each) {
      if (links->poll_memory()) return true;
    }
    return false;
  }

  void follow_memory() const {
    const int each = links->memory_links();
    const int max_empty = links->is_hurried() ? hurried_memory_looks : looks_after_found;
    int empty = 0;
    for (int polls = 0; each > 0 && polls < most_looks_after_found; polls += each) {
      empty = links->poll_memory() ? 0 : empty + each;
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
int poll_until_looked(asio::io_context& context, const poller& links) {
  int ran = 0;
  while (links.look.is_posted && ran < handlers_per_turn && context.poll_one() > 0) ++ran;
  return ran;
}

/// Marks the context as polled while the loop is in `run`.
class polling {
 public:
  polling(poller& p, bool has_core) noexcept : poller_(p) {
    poller_.set_polling(true);
    poller_.set_core(has_core);
  }
  ~polling() {
    poller_.set_polling(false);
    poller_.arm();
  }
  polling(const polling&) = delete;
  polling& operator=(const polling&) = delete;

 private:
  poller& poller_;
};

/// True if anything happened within the budget.
bool spin(asio::io_context& context, poller& links, const spin_policy& policy,
          std::chrono::nanoseconds budget) {
  const clock::time_point end = clock::now() + budget;
  int polls = 0;
  links.look.found = false;
  do {
    if (!links.look.is_posted) {
      links.look.is_posted = true;
      asio::post(context, poll_links{&context, &links, policy.crowded});
    }
    const int ran = poll_until_looked(context, links);
    if (links.look.found || ran > 1) return true;
    if (context.stopped()) return false;
    const bool yields = policy.polls_per_yield > 0 && !policy.crowded;
    if (yields && ++polls % policy.polls_per_yield == 0) sched_yield();
  } while (clock::now() < end);
  return false;
}

}  // namespace

int cores_for_loops() noexcept {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return cores > 1 ? cores : 0;
}

spin_policy spin_policy_for(int loops_on_host, std::chrono::microseconds most) noexcept {
  const int cores = cores_for_loops();
  return {.most = most, .crowded = cores > 0 && loops_on_host > cores};
}

spin_stats run(asio::io_context& context, spin_policy policy) {
  spin_budget budget(policy);
  poller& links = poller::of(context.get_executor());
  links.require_own_process();
  const polling mark(links, policy.most.count() > 0 && !policy.crowded);
  while (!context.stopped()) {
    const std::chrono::nanoseconds spin_time = budget.next();
    if (spin_time < std::chrono::microseconds(1)) {
      poll_some(context);
    } else if (spin(context, links, policy, spin_time)) {
      budget.caught();
      continue;
    }
    if (context.stopped()) break;
    const clock::time_point sleep_start = clock::now();
    links.arm();
    context.run_one();
    budget.missed(clock::now() - sleep_start);
  }
  return budget.stats();
}

}  // namespace tandem
