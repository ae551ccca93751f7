#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tandem/operation.hpp>

namespace tandem {

/// Memory in which some ranks of one host do their short collectives: each writes what it brings to
/// a call once, in a place of its own, and reads what the others have written. Nothing is sent, no
/// message waits for its receive, and a call is one store and one look for each other rank.
///
/// Every rank has places for `places` calls in a row; who is further ahead waits until all others
/// have ended the call that had the place before. What others write is never trusted with more than
/// the value of bytes: no length and no address in it is followed.
///
/// This is the part without I/O; whoever derives from it wakes ranks that sleep and finds those
/// that are gone. The idea is that of the shared-memory collectives of MPI (Graham and Shipman
/// 2008, MPI Support for Multi-core Architectures: Optimized Shared Memory Collectives).
///
/// @par Executor  One; nothing here is safe from two threads of a process.
class board {
 public:
  static constexpr std::uint64_t places = 64;
  static constexpr std::uint64_t calls_at_once = 64;
  static constexpr std::size_t most_bytes = 4096;  ///< that one rank brings to a call
  static constexpr int most_ranks = 16;

  /// A call that waits for others. Asked again whenever something may have come.
  class waiter {
   public:
    /// True: it waits no longer. Asked again, it says the same.
    virtual bool look() noexcept = 0;
    /// On the executor, after `look` said true, or with why it waits in vain.
    virtual void over(std::shared_ptr<const error> failure) = 0;
    /// The executor goes away: frees what waits, calls nothing.
    virtual void gone() noexcept = 0;
    /// Of the board, a rank for which it waits.
    virtual int missing() const noexcept = 0;

   protected:
    ~waiter() = default;
  };

  virtual ~board() = default;
  board(const board&) = delete;
  board& operator=(const board&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// So many bytes of zeros a board of that many ranks is.
  static std::size_t bytes_for(int ranks) noexcept;

  // Of this rank. Calls are numbered alike on all ranks, upward, at most `calls_at_once` apart
  // while they are open, and every rank begins and ends each of them.

  void begin(std::uint64_t call) noexcept;
  /// What others brought is read no more.
  void end(std::uint64_t call) noexcept;
  /// Where to write what this rank brings, `most_bytes` at the most; null while somebody, perhaps
  /// this rank itself, may still read what was there before: `behind` says who.
  std::byte* place_for(std::uint64_t call) noexcept;
  int behind() const noexcept { return behind_; }
  /// Those who sleep hear of it with the end of the call, or when this rank settles.
  void publish(std::uint64_t call, const message_note& note, std::size_t bytes) noexcept;
  /// Rings whoever may sleep and miss what was written here. Before this rank waits; nothing where
  /// it is done already.
  void settle() noexcept {
    if (owes_look_) look_for_sleepers();
  }

  /// What a rank has brought to a call, `data` null: nothing yet. It may change while it is read,
  /// where that rank means harm.
  struct brought {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    message_note note;
  };
  brought find(int rank, std::uint64_t call) const noexcept;
  bool has(int rank, std::uint64_t call) const noexcept;

  /// Looks again and again for about a microsecond, where the core is this loop's own. True: `w` is
  /// over.
  virtual bool linger(waiter& w) noexcept = 0;
  /// Until `w` is over. @pre it was not just now, and stays in place.
  virtual void wait(waiter& w) = 0;
  /// All ranks have it, or never will: what was kept for them to find it by may go.
  virtual void is_shared() noexcept {}
  /// It waits no more, and hears nothing. Harmless where it does not wait.
  virtual void forget(waiter& w) noexcept = 0;
  /// Why no call can end here any more, where that is so.
  virtual const std::shared_ptr<const error>& failed() const noexcept = 0;

 protected:
  /// @param memory  `bytes_for(size)`, on a line of the cache, kept by whoever derives from this.
  board(std::byte* memory, int rank, int size) noexcept;

  /// This rank sleeps from now on, and is rung when anybody writes. Look once more after it.
  void fall_asleep() noexcept;
  void be_awake() noexcept;

 private:
  /// `call` is written last: one more than its number. The first bytes come with its line.
  struct alignas(64) slot {
    std::atomic<std::uint64_t> call;
    std::uint64_t what;
    std::uint32_t history;
    std::uint32_t bytes;
    std::byte data[most_bytes];
  };
  /// `finished`: every call before it has ended here.
  struct alignas(64) words {
    std::atomic<std::uint32_t> asleep;
    alignas(64) std::atomic<std::uint64_t> finished;
  };
  struct area {
    words told;
    std::array<slot, places> slots;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  /// Wakes a rank of the board, perhaps this one, of which another call waits.
  virtual void ring(int rank) noexcept = 0;
  /// `settle` is called soon, by this rank's loop.
  virtual bool settles_soon() const noexcept { return false; }
  void look_for_sleepers() noexcept;
  void ring_sleepers() noexcept;
  area& of(int rank) const noexcept { return areas_[rank]; }

  area* const areas_;
  const int rank_, size_;
  std::uint64_t open_ = 0;                    // bit k: a call numbered k modulo 64
  std::uint64_t newest_ = 0;                  // the next call after all that have begun
  std::array<std::uint64_t, places> used_{};  // by place: one more than the call that had it last
  std::array<std::uint64_t, most_ranks> finished_{};  // as last seen of each rank
  int behind_ = 0;
  bool owes_look_ = false;  // something was written since others were last asked for sure
};

inline bool board::has(int rank, std::uint64_t call) const noexcept {
  return of(rank).slots[call % places].call.load(std::memory_order_acquire) == call + 1;
}

}  // namespace tandem
