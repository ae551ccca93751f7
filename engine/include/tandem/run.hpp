#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>

namespace tandem {

namespace asio = boost::asio;

/// How long a loop polls before it sleeps in the kernel. Sleeping costs 20 to 60 us at the next
/// event; polling occupies a core. The budget adapts: it halves each time a spin finds nothing,
/// down to an eighth (to zero if the loop is crowded), and is restored when a sleep is so short
/// that spinning would have caught the event.
struct spin_policy {
  std::chrono::microseconds most{50};  ///< longest spin; 0: sleep at once
  int polls_per_yield = 1;             ///< yield the core after so many empty polls; 0: never
  /// Other loops share this core: the loop's events depend on their running, so it yields the core
  /// after every poll.
  bool crowded = false;
};

/// Spin statistics of a loop.
struct spin_stats {
  std::uint64_t caught = 0;  ///< spins that found an event
  std::uint64_t missed = 0;  ///< spins that ended in sleep
};

/// Cores that the loops of this host share, as far as this process may use them; 0 if it is bound
/// to a single core, which is then its own.
int cores_for_loops() noexcept;
/// The policy for one of `loops_on_host` loops: crowded if they outnumber the cores.
spin_policy spin_policy_for(int loops_on_host, std::chrono::microseconds most) noexcept;

/// Decides how long to spin next. Reads no clock and does no I/O.
class spin_budget {
 public:
  explicit spin_budget(spin_policy policy) noexcept : policy_(policy), budget_(policy.most) {}
  std::chrono::nanoseconds next() const noexcept { return budget_; }
  void caught() noexcept;
  /// The spin found nothing and the loop then slept for `slept`.
  void missed(std::chrono::nanoseconds slept) noexcept;
  const spin_stats& stats() const noexcept { return stats_; }

 private:
  spin_policy policy_;
  std::chrono::nanoseconds budget_;
  spin_stats stats_;
};

/// Runs `context` on this thread until it is out of work or stopped, like `io_context::run`, with a
/// bounded spin before each sleep. Exceptions of handlers propagate.
spin_stats run(asio::io_context& context, spin_policy policy = {});

}  // namespace tandem
