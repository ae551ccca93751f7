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

/// What waking takes, which is no part of the time until the event: 20 to 60 us, more where a
/// hypervisor has to start the core.
constexpr std::chrono::microseconds waking{50};
/// Two ends of a long transfer that both have learned to sleep wake each other once for each ring
/// of it, whose length is longer than any spin would be: twice to five times slower, for good. Who
/// looks for a moment first finds the other one at work. Less than a sleep costs by itself.
constexpr int shares_left = 8;

}  // namespace

/// Where others wait for the core, sleeping is what lets them run: nothing is left there.
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

/// The kernel's queue and posted work are looked at once in so many rounds of the poller: a system
/// call more for each would double what a round costs. Not only empty ones: what a round finds is
/// often the first half of an exchange, and a look before the second took one of 1 KiB between two
/// ranks over TCP from 7.2 us to 8.7.
constexpr int rounds_per_look = 4;

/// Between two of them, those that only look at memory are asked again and again: so many looks,
/// about a microsecond.
constexpr int memory_looks = 64;
/// The same where a look of the round itself is awaited: a copy engine takes some us, and asking
/// its driver one.
constexpr int hurried_memory_looks = 8;
/// What they bring is often followed by more at once (an answer to an answer): so many empty looks
/// are waited for it, and so many in all, before other handlers get their turn.
constexpr int looks_after_found = 200;
constexpr int most_looks_after_found = 1000;
/// The same where others wait for the core, one of which may keep it far longer, and of rounds that
/// go on after one that has found something.
constexpr std::chrono::microseconds longest_follow{20};

/// Rounds of the poller, run as a handler of the context: what they complete is on the executor
/// then, and a dispatch from it runs at once. It may run long after the spin that posted it, where
/// other handlers are many: what it leaves behind belongs to the poller.
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

  /// Memory has a follow-up of its own, unless rounds are awaited, and others who wait for the core
  /// have theirs.
  bool leaves_early(clock::time_point end) const {
    return crowded || (links->memory_links() > 0 && !links->is_hurried()) || context->stopped() ||
           clock::now() >= end;
  }

  /// Those who have the answer run meanwhile; what they bring is often followed by more.
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
    const int most = links->is_hurried() ? hurried_memory_looks : memory_looks;
    for (int looks = 0; each > 0 && looks < most; looks += each) {
      if (links->poll_memory()) return true;
    }
    return false;
  }

  void follow_memory() const {
    const int each = links->memory_links();
    const int patience = links->is_hurried() ? hurried_memory_looks : looks_after_found;
    int empty = 0;
    for (int looks = 0; each > 0 && looks < most_looks_after_found; looks += each) {
      empty = links->poll_memory() ? 0 : empty + each;
      if (empty >= patience) return;
    }
  }
};

/// So many handlers in a row: those that start each other without end must not keep the links
/// waiting.
constexpr int handlers_per_turn = 64;

/// How many handlers ran.
int poll_some(asio::io_context& context) {
  int ran = 0;
  while (ran < handlers_per_turn && context.poll_one() > 0) ++ran;
  return ran;
}

/// The same until the links have been polled: what is queued behind that is for the next turn. To
/// ask for more when nothing is queued would be a system call.
int poll_until_looked(asio::io_context& context, const poller& links) {
  int ran = 0;
  while (links.look.is_posted && ran < handlers_per_turn && context.poll_one() > 0) ++ran;
  return ran;
}

/// Marks the context as polled, for as long as the loop is in `run`.
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

/// True where something happened within the budget.
bool spin(asio::io_context& context, poller& links, const spin_policy& policy,
          std::chrono::nanoseconds budget) {
  const clock::time_point end = clock::now() + budget;
  int looks = 0;
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
    if (yields && ++looks % policy.polls_per_yield == 0) sched_yield();
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
    const std::chrono::nanoseconds most = budget.next();
    if (most < std::chrono::microseconds(1)) {
      poll_some(context);
    } else if (spin(context, links, policy, most)) {
      budget.caught();
      continue;
    }
    if (context.stopped()) break;
    const clock::time_point asleep = clock::now();
    links.arm();
    context.run_one();
    budget.missed(clock::now() - asleep);
  }
  return budget.stats();
}

}  // namespace tandem
