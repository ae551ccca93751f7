#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tandem/channel.hpp>

namespace tandem {

/// Shared memory for short collectives between ranks of one host: each rank writes its contribution
/// to a call once, into a slot of its own, and reads the slots of the others. No message is sent
/// or matched; a call costs one store and one load per other rank.
///
/// Every rank has a ring of `slots_per_rank` slots, one per call. A rank that is further ahead
/// waits until all others have ended the call that used the slot before. Data of other ranks is
/// untrusted: no length or address in it is followed.
///
/// This class does no I/O; a derived class wakes blocked ranks and detects lost ones. After the
/// shared-memory collectives of MPI (Graham and Shipman 2008, MPI Support for Multi-core
/// Architectures: Optimized Shared Memory Collectives).
///
/// @par Executor  One; not thread-safe within a process.
class board {
 public:
  static constexpr std::uint64_t slots_per_rank = 64;
  static constexpr std::uint64_t max_open_calls = 64;
  static constexpr std::size_t max_bytes = 4096;  ///< of one rank's contribution to a call
  static constexpr int max_ranks = 16;

  /// Contributions to one call: those of all these ranks (bit r: of rank r).
  struct awaited {
    std::uint64_t call = 0;
    std::uint32_t ranks = 0;
  };

  /// A call that waits for other ranks. Polled whenever its condition may have changed.
  class waiter {
   public:
    /// True: the wait has ended; later calls return the same.
    virtual bool poll() noexcept = 0;
    /// Completes the wait, on the executor: after `poll` returned true, or with a failure.
    virtual void complete(std::shared_ptr<const error> failure) = 0;
    /// The execution context is destroyed: frees what waits, calls nothing.
    virtual void abandon() noexcept = 0;
    /// What it waits for, if that is contributions to a call.
    virtual std::optional<awaited> missing() const noexcept = 0;
    /// A rank of the board that it waits for.
    virtual int missing_rank() const noexcept = 0;

   protected:
    ~waiter() = default;
  };

  virtual ~board() = default;
  board(const board&) = delete;
  board& operator=(const board&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// Bytes of zeroed memory that a board of so many ranks needs.
  static std::size_t bytes_for(int ranks) noexcept;

  // The local rank. Calls have the same, increasing numbers on all ranks; open calls are at most
  // `max_open_calls` apart, and every rank begins and ends each call.

  void begin(std::uint64_t call) noexcept;
  /// This rank no longer reads the contributions to the call.
  void end(std::uint64_t call) noexcept;
  /// The slot for this rank's contribution, of at most `max_bytes`; null while a rank, possibly
  /// this one, may still read the slot's previous contribution: `lagging_rank` is that rank.
  std::byte* slot_for(std::uint64_t call) noexcept;
  int lagging_rank() const noexcept { return lagging_rank_; }
  /// Makes the contribution visible. Blocked ranks are woken at the end of the call, or by
  /// `flush_wakeups`.
  void publish(std::uint64_t call, const call_signature& signature, std::size_t bytes) noexcept;
  /// Wakes ranks that may have blocked without seeing what was written here. Call before this rank
  /// waits; does nothing if no wake-up is pending.
  void flush_wakeups() noexcept {
    if (wakeup_pending_) wake_blocked_ranks();
  }

  /// A rank's contribution to a call; `data` is null: not yet published. A malicious rank can
  /// change it while it is read.
  struct contribution {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    call_signature signature;
  };
  contribution find(int rank, std::uint64_t call) const noexcept;
  bool has(int rank, std::uint64_t call) const noexcept;

  /// Spins for about a microsecond if the loop has a core of its own. True: the wait of `w` has
  /// ended.
  virtual bool spin_wait(waiter& w) noexcept = 0;
  /// Registers `w`, which must not move until it completes; it fails at `due`, `max()`: after the
  /// settings' timeout. @pre its `poll` has just returned false.
  virtual void wait(waiter& w, std::chrono::steady_clock::time_point due) = 0;
  /// All ranks have opened the memory, or never will: the name by which they find it can be
  /// removed.
  virtual void on_shared() noexcept {}
  /// Removes a waiter without completing it. No effect if it is not registered.
  virtual void cancel_wait(waiter& w) noexcept = 0;
  /// Why no call can complete on this board any more; null while it works.
  virtual const std::shared_ptr<const error>& failed() const noexcept = 0;

 protected:
  /// @param memory  `bytes_for(size)`, aligned to a cache line; owned by the derived class.
  board(std::byte* memory, int rank, int size) noexcept;

  /// Marks this rank as blocked. Poll once more afterwards.
  /// @param until  it is woken when all of these contributions are there, by the rank that is the
  ///   last; empty: when any rank writes. Others would wake it for nothing: eight ranks on two
  ///   cores that do not spin reduce 8 bytes in 65 us, in 95 us with any
  void set_blocked(const std::optional<awaited>& until = {}) noexcept;
  void clear_blocked() noexcept;

 private:
  /// `call` is the call's number plus one, written last. The first data bytes share its cache line.
  struct alignas(64) slot {
    std::atomic<std::uint64_t> call;
    std::uint64_t what;
    std::uint32_t history;
    std::uint32_t bytes;
    std::byte data[max_bytes];
  };
  /// `finished`: this rank has ended every call with a lower number.
  struct alignas(64) rank_state {
    std::atomic<std::uint64_t> blocked;  ///< a `blocked_word`
    alignas(64) std::atomic<std::uint64_t> finished;
  };
  struct area {
    rank_state state;
    std::array<slot, slots_per_rank> slots;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  class blocked_word;

  /// Wakes a rank of the board, possibly this one, for which another call may wait.
  virtual void ring_doorbell(int rank) noexcept = 0;
  /// True if this rank's loop calls `flush_wakeups` soon.
  virtual bool flushes_soon() const noexcept { return false; }
  bool has_contributed(int rank, const blocked_word& to) const noexcept;
  /// Takes a rank out of those that a blocked rank waits for. True: it was the last, and the word
  /// is zero now.
  bool arrive(int rank, std::atomic<std::uint64_t>& blocked, int blocked_rank) const noexcept;
  void wake_blocked_ranks() noexcept;
  void ring_blocked_ranks() noexcept;
  area& of(int rank) const noexcept { return areas_[rank]; }

  area* const areas_;
  const int rank_, size_;
  std::uint64_t open_ = 0;    // bit k: a call with a number of k modulo 64 is open
  std::uint64_t newest_ = 0;  // one more than the newest call
  std::array<std::uint64_t, slots_per_rank> used_{};  // by slot: one more than its last call
  std::array<std::uint64_t, max_ranks> finished_{};   // by rank, as last read
  int lagging_rank_ = 0;
  bool wakeup_pending_ = false;  // something was written since blocked ranks were last checked
};

inline bool board::has(int rank, std::uint64_t call) const noexcept {
  return of(rank).slots[call % slots_per_rank].call.load(std::memory_order_acquire) == call + 1;
}

}  // namespace tandem
