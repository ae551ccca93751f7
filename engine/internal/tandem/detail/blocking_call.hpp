// Calls that the system or a driver may never return from, with a deadline.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tandem/error.hpp>
#include <type_traits>
#include <utility>

namespace tandem::detail {

/// Runs `work` on a thread of its own, which blocks all signals, and waits at most `limit` for it.
/// False: it has not returned. The thread then stays behind, as a call that blocks in the kernel
/// cannot be cancelled: `work` must own all that it uses. Where it has returned, its thread has
/// ended too, unless that takes longer than `limit` in its turn. Rethrows what `work` throws in
/// time.
/// @par Errors thrown  `errc::limit_exceeded` if no thread can be started.
bool run_within(std::chrono::milliseconds limit, std::function<void()> work);

/// Starts `work` in the same way and does not wait for it. @param purpose  for that error: "for a
/// call that may block"
void run_detached(std::string_view purpose, std::function<void()> work);

/// Calls of `run_within` that were given up and have not returned since. While there are any,
/// `exit` may block: the initialisation of a library holds the loader's lock.
int abandoned_calls() noexcept;

/// The result of `work`; empty where it has not returned within `limit`.
template <class Work>
auto call_within(std::chrono::milliseconds limit, Work work)
    -> std::optional<std::invoke_result_t<Work&>> {
  using result = std::invoke_result_t<Work&>;
  const auto kept = std::make_shared<std::optional<result>>();
  const bool returned =
      run_within(limit, [kept, work = std::move(work)]() mutable { kept->emplace(work()); });
  if (!returned) return {};
  return std::move(*kept);
}

/// `errc::timed_out`: what has not answered, and for how long it was waited for.
error no_answer(const std::string& what, std::chrono::milliseconds limit, std::string advice);

/// The result of `work`. @par Errors thrown  `no_answer` where it has not returned within `limit`.
template <class Work>
auto require_answer(const std::string& what, std::chrono::milliseconds limit, std::string advice,
                    Work work) -> std::invoke_result_t<Work&> {
  auto result = call_within(limit, std::move(work));
  if (!result) throw no_answer(what, limit, std::move(advice));
  return std::move(*result);
}

/// How long a driver or a vendor's library may take to initialise and to list its devices, and a
/// file system to open a cache or an output file: the `meet_timeout` of the process's settings, and
/// its default before they are known; half a second while another call does not return, so that
/// calls that hang do not add up. Any thread.
std::chrono::milliseconds driver_timeout() noexcept;
void set_driver_timeout(std::chrono::milliseconds limit) noexcept;

}  // namespace tandem::detail
