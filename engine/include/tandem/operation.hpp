#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <tandem/error.hpp>
#include <tandem/memory.hpp>

namespace tandem {

/// Names one ordered stream of messages between two ranks. Flows are independent: none blocks
/// another.
using flow_id = std::uint32_t;

/// What a message is part of, in whoever's words: travels with it. A message meets a receive that
/// names the same, else both end with `errc::call_mismatch` and know each other's.
struct message_note {
  std::uint64_t call = 0;
  std::uint32_t history = 0;
  friend bool operator==(const message_note&, const message_note&) = default;
};

/// One send or receive, without coroutines: the caller owns the object, starts it on a channel and
/// is told when it is over. `channel::send` and `recv` stand on it, and so can callbacks or another
/// language.
///
/// The object and its view stay in place from `channel::start` until completion; `channel` links it
/// into its own lists and allocates nothing for it.
struct operation {
  operation() = default;
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;
  /// Leaves the list it is in. Only a channel that is being abandoned may still know a pending one.
  ~operation() {
    if (next == nullptr) return;
    previous->next = next;
    next->previous = previous;
  }

  enum class kind : std::uint8_t { send, recv };
  /// How far it has come; readable in an error's context.
  enum class phase : std::uint8_t { idle, queued, announced, moving, done };
  using time_point = std::chrono::steady_clock::time_point;
  /// A deadline that never comes, where `time_point::max()` stands for the channel's default.
  static constexpr time_point for_ever{std::chrono::hours(24 * 365 * 100)};

  /// A peer on another thread moves the phase of an operation here, while a cancellation looks
  /// whether it comes too late.
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
  /// Of a send: its view is written again right after. Memory that the peer has mapped is copied
  /// for it then, rather than read by it: a line that another core has just read is written slowly.
  bool rewritten = false;

  // The result, valid at completion.
  error_code result;
  std::shared_ptr<const error> failure;  ///< set with `result`: who, where, what to do
  std::size_t bytes = 0;                 ///< moved; of a receive: the length of the message
  std::size_t total_bytes = 0;           ///< of the message, where known
  message_note peer_note;                ///< with `errc::call_mismatch`

  /// Told exactly once, on the channel's executor, never from inside `start`. Must not throw: the
  /// channel is in the middle of its work, and after an exception it is only fit to be destroyed.
  /// Not `noexcept` by type, because it may resume a coroutine that ends, and what the completion
  /// handler of that coroutine throws belongs to whoever runs the loop.
  void (*complete)(operation&) = nullptr;
  /// The executor goes away with the operation pending: free what waits for it, call nothing.
  void (*destroy)(operation&) noexcept = nullptr;
  void* owner = nullptr;  ///< for whoever made it

  // The channel's own, while pending.
  operation* next = nullptr;
  operation* previous = nullptr;
  time_point due = time_point::max();  ///< `deadline`, or the channel's default
  std::uint64_t tag = 0;
  /// NICs, copy engines and inner channels that may still touch the view: an operation that is over
  /// is told only without them.
  std::uint32_t pins = 0;
  bool registered = false;  ///< the view, for this operation
};

}  // namespace tandem
