/// Coroutines together: joins, conditions, deadlines, any completion token, and the loop that runs
/// them.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <tandem/error.hpp>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#pragma GCC visibility push(default)

namespace tandem {

namespace asio = boost::asio;

/// A condition variable for coroutines of one executor: each `wait` returns at the next
/// `notify_all`. Notifications are not stored, so check the condition before and after waiting.
/// @par Cancellation  Terminal: `wait` throws operation_aborted.
class async_condition {
 public:
  explicit async_condition(const asio::any_io_executor& executor)
      : timer_(executor, asio::steady_timer::time_point::max()) {}

  asio::awaitable<void> wait();
  void notify_all() { timer_.cancel(); }

 private:
  asio::steady_timer timer_;
};

namespace detail {

template <class T>
using result_of = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class T>
asio::awaitable<void> store_result(asio::awaitable<T> work, std::optional<result_of<T>>& into) {
  if constexpr (std::is_void_v<T>) {
    co_await std::move(work);
    into.emplace();
  } else {
    into.emplace(co_await std::move(work));
  }
}

}  // namespace detail

/// Runs all branches concurrently on the caller's executor and returns when all have ended.
///
/// @par Errors  The first failure cancels the others (terminal) and is thrown when the last branch
///   has ended, so none of their buffers is in use any more. Later failures are dropped.
/// @par Cancellation  Terminal: forwarded to each branch; completes when the last has ended.
/// @par Cost  One allocation for the join, one coroutine frame per branch.
asio::awaitable<void> when_all(std::vector<asio::awaitable<void>> branches);

/// The same for branches with results, which it returns in their order.
template <class T>
requires(!std::is_void_v<T>) asio::awaitable<std::vector<T>> when_all(
    std::vector<asio::awaitable<T>> branches) {
  std::vector<std::optional<T>> results(branches.size());
  std::vector<asio::awaitable<void>> all;
  all.reserve(branches.size());
  for (std::size_t i = 0; i < branches.size(); ++i) {
    all.push_back(detail::store_result(std::move(branches[i]), results[i]));
  }
  co_await when_all(std::move(all));
  std::vector<T> values;
  values.reserve(results.size());
  for (std::optional<T>& each : results) values.push_back(std::move(*each));
  co_return values;
}

/// The same for branches of different types; that of a branch without a result is std::monostate.
///
///   const auto [bytes, sum] = co_await tandem::when_all(ch.recv(0, view), mean(values));
template <class... T>
requires(sizeof...(T) > 1) asio::awaitable<std::tuple<detail::result_of<T>...>> when_all(
    asio::awaitable<T>... branches) {
  std::tuple<std::optional<detail::result_of<T>>...> results;
  std::vector<asio::awaitable<void>> all;
  all.reserve(sizeof...(T));
  std::apply(
      [&](auto&... into) { (all.push_back(detail::store_result(std::move(branches), into)), ...); },
      results);
  co_await when_all(std::move(all));
  co_return std::apply(
      [](auto&... each) { return std::tuple<detail::result_of<T>...>(std::move(*each)...); },
      results);
}

/// Runs all branches concurrently and returns every outcome: null for a branch that succeeded. A
/// failure cancels no other branch; a cancellation of the caller is forwarded to each.
asio::awaitable<std::vector<std::exception_ptr>> collect_all(
    std::vector<asio::awaitable<void>> branches);

/// Any awaitable of this library as an Asio operation for any completion token: a callback,
/// `use_future`, `deferred`, `detached`, another `use_awaitable`. Signature
/// `void(std::exception_ptr, T)`, or `void(std::exception_ptr)` for no result.
///
///   tandem::async(ch.get_executor(), ch.recv(0, view), [](std::exception_ptr e, std::size_t n) {
///   ... });
///
/// @par Cancellation  Terminal, by the slot of the token; see `enable_total_cancellation`.
///   Boost 1.86 and newer have `asio::cancel_after(limit, token)`, too.
template <class Executor, class T, class CompletionToken>
auto async(const Executor& executor, asio::awaitable<T> work, CompletionToken&& token) {
  return asio::co_spawn(executor, std::move(work), std::forward<CompletionToken>(token));
}

/// `work` with total and partial cancellation, which an Asio coroutine ignores unless it says
/// otherwise. Messages honour them as long as nothing has moved (`channel`); anything else, a
/// collective above all, treats them as terminal.
///
///   tandem::async(executor, tandem::enable_total_cancellation(ch.recv(0, view)), token);
template <class T>
asio::awaitable<T> enable_total_cancellation(asio::awaitable<T> work) {
  co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
  if constexpr (std::is_void_v<T>) {
    co_await std::move(work);
  } else {
    T result = co_await std::move(work);
    co_return result;
  }
}

/// Runs `work` and cancels it (terminal) when `limit` has passed; then throws `errc::timed_out`
/// with `phase` and `advice` in its context. Completes only when `work` has ended and accesses
/// nothing any more, which may be after the deadline.
asio::awaitable<void> with_deadline(std::chrono::steady_clock::duration limit,
                                    asio::awaitable<void> work, std::string phase,
                                    std::string advice = {});
/// The same for work with a result, which it returns.
template <class T>
requires(!std::is_void_v<T>) asio::awaitable<T> with_deadline(
    std::chrono::steady_clock::duration limit, asio::awaitable<T> work, std::string phase,
    std::string advice = {}) {
  std::optional<T> result;
  auto stored = detail::store_result(std::move(work), result);
  co_await with_deadline(limit, std::move(stored), std::move(phase), std::move(advice));
  co_return std::move(*result);
}

/// How long a loop polls before it sleeps in the kernel. Sleeping costs 20 to 60 us at the next
/// event; polling occupies a core. The budget adapts: it halves each time a spin finds nothing,
/// down to an eighth, and is restored when a sleep is so short that spinning would have caught the
/// event. While sleeps last no longer than 16 times `max_spin`, it doubles up to that. A crowded
/// loop sleeps at once after a spin that has found nothing, until so many sleeps have been short
/// that spinning is tried again: 1, 3, 7... up to 255 as long as that fails.
struct spin_policy {
  std::chrono::microseconds max_spin{50};  ///< usual longest spin; 0: sleep at once
  int polls_per_yield = 1;                 ///< yield the core after so many empty polls; 0: never
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
spin_policy spin_policy_for(int loops_on_host, std::chrono::microseconds max_spin) noexcept;

/// Decides how long to spin next. Reads no clock and does no I/O.
class spin_budget {
 public:
  explicit spin_budget(spin_policy policy) noexcept : policy_(policy), budget_(policy.max_spin) {}
  std::chrono::nanoseconds next() const noexcept { return budget_; }
  void caught() noexcept;
  /// The spin found nothing and the loop then slept for `slept`.
  void missed(std::chrono::nanoseconds slept) noexcept;
  const spin_stats& stats() const noexcept { return stats_; }

 private:
  void missed_crowded(std::chrono::nanoseconds slept) noexcept;

  spin_policy policy_;
  std::chrono::nanoseconds budget_;
  int max_sleeps_ = 0;  ///< short ones between two spins, in a crowded loop
  int sleeps_ = 0;      ///< of those, the ones to come
  spin_stats stats_;
};

/// Runs `context` on this thread until it is out of work or stopped, like `io_context::run`, with a
/// bounded spin before each sleep. Exceptions of handlers propagate.
spin_stats run(asio::io_context& context, spin_policy policy = {});

}  // namespace tandem

#pragma GCC visibility pop
