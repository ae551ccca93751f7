#include <sched.h>

#include <tandem/run.hpp>

namespace tandem {

using clock = std::chrono::steady_clock;

void spin_budget::caught() noexcept {
  ++stats_.caught;
  budget_ = policy_.most;
}

void spin_budget::missed(std::chrono::nanoseconds slept) noexcept {
  ++stats_.missed;
  if (slept <= policy_.most) {
    budget_ = policy_.most;
  } else {
    budget_ /= 2;
  }
}

namespace {

/// True where a handler ran within the budget.
bool spin(asio::io_context& context, const spin_policy& policy, std::chrono::nanoseconds budget) {
  const clock::time_point end = clock::now() + budget;
  int empty = 0;
  while (clock::now() < end) {
    if (context.poll() > 0) return true;
    if (context.stopped()) return false;
    if (policy.polls_per_yield > 0 && ++empty % policy.polls_per_yield == 0) sched_yield();
  }
  return false;
}

}  // namespace

spin_stats run(asio::io_context& context, spin_policy policy) {
  spin_budget budget(policy);
  while (!context.stopped()) {
    context.poll();
    if (context.stopped()) break;
    // Below a microsecond a spin is a poll that was already made.
    const std::chrono::nanoseconds most = budget.next();
    if (most >= std::chrono::microseconds(1) && spin(context, policy, most)) {
      budget.caught();
      continue;
    }
    if (context.stopped()) break;
    const clock::time_point asleep = clock::now();
    context.run_one();
    budget.missed(clock::now() - asleep);
  }
  return budget.stats();
}

}  // namespace tandem
