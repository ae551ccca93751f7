#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <tandem/error.hpp>
#include <tandem/memory.hpp>

namespace tandem {

/// Identifies an ordered stream of messages between two ranks. Flows are independent: none blocks
/// another.
using flow_id = std::uint32_t;

/// The call that a message belongs to, opaque to the channel and sent with it. If the signatures of
/// a message and its receive differ, both fail with `errc::call_mismatch` and get the other's.
struct message_note {
  std::uint64_t call = 0;
  std::uint32_t history = 0;
  friend bool operator==(const message_note&, const message_note&) = default;
};

/// One send or receive, without coroutines: the caller owns the object, starts it on a channel and
/// gets a completion callback. `channel::send` and `recv` are built on it; so can callback APIs and
/// bindings of other languages be.
///
/// The object and its view must not move from `channel::start` until completion; the channel links
/// it into intrusive lists and allocates nothing for it.
struct operation {
  operation() = default;
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;
  /// Unlinks itself. Only a channel that is being abandoned may still reference a pending
  /// operation.
  ~operation() {
    if (next == nullptr) return;
    previous->next = next;
    next->previous = previous;
  }

  enum class kind : std::uint8_t { send, recv };
  /// Progress of the operation; appears in an error's context.
  enum class phase : std::uint8_t { idle, queued, announced, moving, done };
  using time_point = std::chrono::steady_clock::time_point;
  /// No deadline; `time_point::max()` means the channel's default.
  static constexpr time_point for_ever{std::chrono::hours(24 * 365 * 100)};

  /// Atomic: a peer on another thread may change the phase while a cancellation checks whether it
  /// comes too late.
  void move_to(phase next_phase) noexcept {
    std::atomic_ref(at).store(next_phase, std::memory_order_relaxed);
  }
  bool is_over() noexcept {
    return std::atomic_ref(at).load(std::memory_order_relaxed) == phase::done;
  }

  kind what = kind::send;
  phase at = phase::idle;
  flow_id flow = 0;
  mutable_view view;  ///< a send only reads it
  time_point deadline = time_point::max();
  message_note note;
  /// For a send: the caller overwrites the view right after completion. Then memory that the peer
  /// has mapped is copied for it, not read by it: writing a cache line that another core has just
  /// read is slow.
  bool rewritten = false;

  // The result, valid at completion.
  error_code result;
  std::shared_ptr<const error> failure;  ///< set with `result`: context and advice
  std::size_t bytes = 0;                 ///< transferred; for a receive: the message length
  std::size_t total_bytes = 0;           ///< of the message, if known
  message_note peer_note;                ///< with `errc::call_mismatch`

  /// Called exactly once, on the channel's executor, never from inside `start`. Must not throw: the
  /// channel is in an intermediate state and can only be destroyed after an exception. Not
  /// `noexcept` by type, because it may resume a coroutine that ends, and exceptions of that
  /// coroutine's completion handler propagate to the caller of the event loop.
  void (*complete)(operation&) = nullptr;
  /// The execution context is destroyed with the operation pending: free what waits, call nothing.
  void (*destroy)(operation&) noexcept = nullptr;
  void* owner = nullptr;  ///< for the caller's use

  // Private to the channel, while pending.
  operation* next = nullptr;
  operation* previous = nullptr;
  time_point due = time_point::max();  ///< `deadline` or the channel's default
  std::uint64_t tag = 0;
  /// NICs, copy engines and inner channels that may still access the view: a finished operation
  /// completes only when this is 0.
  std::uint32_t pins = 0;
  bool registered = false;  ///< the view is registered for this operation only
};

}  // namespace tandem
