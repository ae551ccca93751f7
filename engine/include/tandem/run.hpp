#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>

namespace tandem {

namespace asio = boost::asio;

/// How long a loop polls before it sleeps in the kernel. Sleeping costs 20 to 60 us at the next
/// event; polling costs a core. The budget adapts: it halves each time a spin finds nothing, down
/// to an eighth (to nothing where the loop is crowded), and is restored when a sleep ends so soon
/// that spinning would have caught the event.
struct spin_policy {
  std::chrono::microseconds most{50};  ///< longest spin; 0 sleeps at once
  int polls_per_yield = 1;             ///< give the core away after this many empty polls; 0 never
  /// Other loops wait for this core: what it waits for comes only when they run, so it is given
  /// away after every look.
  bool crowded = false;
};

/// What a loop did: whether spinning paid.
struct spin_stats {
  std::uint64_t caught = 0;  ///< spins that found an event
  std::uint64_t missed = 0;  ///< spins that ended in sleep
};

/// Cores that the loops of this host share, as far as this process may use them; 0 where it is
/// bound to one, which is its own.
int cores_for_loops() noexcept;
/// That of one of so many loops on this host, with or without a core for each.
spin_policy spin_policy_for(int loops_on_host, std::chrono::microseconds most) noexcept;

/// Decides how long to spin next. No clock and no I/O of its own.
class spin_budget {
 public:
  explicit spin_budget(spin_policy policy) noexcept : policy_(policy), budget_(policy.most) {}
  std::chrono::nanoseconds next() const noexcept { return budget_; }
  void caught() noexcept;
  /// The spin found nothing and the sleep after it lasted so long.
  void missed(std::chrono::nanoseconds slept) noexcept;
  const spin_stats& stats() const noexcept { return stats_; }

 private:
  spin_policy policy_;
  std::chrono::nanoseconds budget_;
  spin_stats stats_;
};

/// Runs `context` on this thread until it is out of work or stopped, like `io_context::run`, with
/// the bounded spin before each sleep. Exceptions of handlers pass through.
spin_stats run(asio::io_context& context, spin_policy policy = {});

}  // namespace tandem
