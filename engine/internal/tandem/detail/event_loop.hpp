// Private: shared by the engine and the modules built on it, not part of the public interface.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <tandem/async.hpp>
#include <tandem/detail/poller.hpp>

namespace tandem::detail {

/// `tandem::run` in turns: runs a context until a flag is set, again and again, on whichever thread
/// calls. Between turns the pollables stay unarmed: the kernel announces no events, so the next
/// turn must follow within milliseconds, or `arm` be called.
/// @par Threads  One at a time, synchronised by the caller when another one takes over: calls of
/// objects on the loop are not checked.
class event_loop {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  event_loop(asio::io_context& context, spin_policy policy);
  /// Arms every pollable.
  ~event_loop();
  event_loop(const event_loop&) = delete;
  event_loop& operator=(const event_loop&) = delete;

  /// Runs handlers until `is_done`, the context is stopped, or `limit` has passed. Handlers set the
  /// flag: another thread that sets it has to stop the context as well.
  void run_until(const std::atomic<bool>& is_done, time_point limit = time_point::max());
  /// Runs what is ready, without waiting.
  void poll();
  /// Makes the kernel announce the next events.
  void arm() { sources_.arm(); }
  const spin_stats& stats() const noexcept { return budget_.stats(); }

 private:
  struct waiting_for;

  bool spin(std::chrono::nanoseconds for_time);

  asio::io_context& context_;
  const spin_policy policy_;
  spin_budget budget_;
  poller& sources_;
};

}  // namespace tandem::detail
