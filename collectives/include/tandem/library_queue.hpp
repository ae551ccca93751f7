/// Calls of a vendor's collective library in the order of a stream.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tandem/accelerator.hpp>
#include <tandem/collectives.hpp>
#include <tandem/communicator.hpp>
#include <tandem/parallel.hpp>

#pragma GCC visibility push(default)

namespace tandem {

namespace detail {
class group;
class library_watch;
class peer_watch;
class vendor_group;
struct nccl;
}  // namespace detail

/// Ranks of one island, and a communicator of their vendor's library (NCCL, RCCL) whose calls are
/// queued on a stream of its own: a call returns at once, is carried out when the stream reaches
/// it, and needs no processor meanwhile. The caller orders it with other streams: before the call
/// `stream()` waits for an event of theirs, and they wait for one that is recorded behind it.
///
/// All ranks make the same calls in the same order. Views are in the memory of this rank's device.
/// Blocks are in rank order; `bytes_of_rank` is the length of each, or empty: all are equal.
/// Minimum and maximum of floating point, averages of integers, bitwise operations and 16-bit
/// integers are not available (`has`): see `make_island_communicator`.
///
/// @par Errors  thrown by calls: as of the collectives for their arguments, before anything is
///   queued; `device_failed` with the library's text; the reason of `abort`.
/// Ranks report their calls to each other four times a second: the libraries themselves do not
/// compare them, and ranks whose calls differ would wait for each other for ever.
///
/// @par Failure  When the job fails, a rank has made other calls (`errc::call_mismatch`, with both)
///   or has not made them in time (`set_time_limit`), or 1 s after the watched peer has left, the
///   handler is called, on the communicator's executor: it has to call `abort`, without which
///   kernels on the stream wait for the lost rank for ever. The first call has the reason.
/// @par Executor  Made and destroyed on that of the communicator, which outlives it. Calls on any
///   thread, one at a time.
class library_queue {
 public:
  using failure_handler = std::function<void(const error& why)>;
  /// What `make` has made.
  struct made {
    std::unique_ptr<library_queue> queue;  ///< null on every rank if it is not possible
    std::string text;  ///< "NCCL 2.28.9", or why not: "ranks 0 and 1 share a device"
    /// There are several islands, some of several ranks, which can use their libraries: see
    /// `make_island_communicator`. The same on every rank.
    bool has_levels = false;
  };
  /// What `make_pair` has made: both queues, or none.
  struct made_pair {
    std::unique_ptr<library_queue> sends, receives;
    std::string text;
  };

  /// Among all ranks of `over`, which call it as a collective. `over` may be used meanwhile.
  /// @par Cost  An all_gather of 192 bytes for each rank, and the library's initialisation:
  ///   seconds, and device memory.
  /// @par Errors  `unsupported_memory`: no such device; those of the all_gather; `device_failed`.
  static asio::awaitable<made> make(communicator& over, island_member mine, failure_handler what);
  /// Between this rank and one other, which both call it: a queue for messages in each direction,
  /// so that a send does not wait for a receive that is queued later. `tag`: of the two messages
  /// that they exchange. @par Cost  as of `make`, twice.
  static asio::awaitable<made_pair> make_pair(communicator& over, int peer, island_member mine,
                                              std::uint16_t tag, failure_handler what);
  ~library_queue();
  library_queue(const library_queue&) = delete;
  library_queue& operator=(const library_queue&) = delete;

  accelerator::stream stream() const noexcept;
  /// For the calls that follow: that stream is `stream()`; empty: the queue's own. The library
  /// orders its calls itself where their streams differ.
  void use(std::optional<accelerator::stream> other) noexcept;
  /// Whether the library has such a reduction as Tandem defines it. The same on all ranks.
  bool has(data_type type, reduce_op op) const noexcept;

  void broadcast(mutable_view data, int root);
  void all_reduce(const_view data, mutable_view result, data_type type, reduction how);
  /// `result` is ignored except at the root.
  void reduce(const_view data, mutable_view result, data_type type, reduction how, int root);
  void all_gather(const_view mine, mutable_view all, std::span<const std::size_t> bytes_of_rank);
  void reduce_scatter(const_view all, mutable_view mine, std::span<const std::size_t> bytes_of_rank,
                      data_type type, reduction how);
  /// `all` is ignored except at the root, in `gather` and `scatter`.
  void gather(const_view mine, mutable_view all, std::span<const std::size_t> bytes_of_rank,
              int root);
  void scatter(const_view all, mutable_view mine, std::span<const std::size_t> bytes_of_rank,
               int root);
  /// `sent`, `received`: lengths by rank; empty: all equal. Not in place.
  void all_to_all(const_view from, std::span<const std::size_t> sent, mutable_view into,
                  std::span<const std::size_t> received);
  /// Of a pair: to and from the other rank.
  void send(const_view message);
  void recv(mutable_view into);

  /// The library's communicator (ncclComm_t), for calls of the caller's own on streams of its own;
  /// null after `abort`.
  void* native() const noexcept;
  /// The same, which the caller destroys. @pre the queue makes no more calls
  void* release() noexcept;

  // Of the caller's own calls, before each is made. Messages that this rank sends to itself are not
  // noted. Any thread.

  void note(collective what, std::size_t bytes, int root = -1);
  void note(collective what, std::size_t bytes, data_type type, reduce_op op, int root = -1);
  /// A collective that does not go through the library, in the order of those that do.
  void note_by_channels(collective what);
  void note_send(int to, std::size_t bytes);
  void note_receive(int from, std::size_t bytes);

  /// A call that another rank has not made that long after this rank, without having made any other
  /// meanwhile, ends the job (`errc::timed_out`, with its number). Without it there is no limit.
  void set_time_limit(std::chrono::milliseconds limit) noexcept;
  /// The ranks known to have made fewer calls than this one: "rank 1 has made 30 of 31
  /// collectives"; empty: none. Any thread.
  std::string missing_text() const;

  /// Ends the work on the stream; later calls throw `why`. On the executor.
  void abort(const error& why);

  /// Calls of this thread, of any queues on one device, that the library launches as one at `end`:
  /// a send and a receive in one batch do not wait for each other.
  class batch {
   public:
    explicit batch(const library_queue& any);
    ~batch();
    batch(const batch&) = delete;
    batch& operator=(const batch&) = delete;
    /// @par Errors  as of calls.
    void end();

   private:
    const library_queue& by_;
    bool is_over_ = false;
  };

 private:
  library_queue(const communicator& over, accelerator& device, const detail::nccl& library,
                int version, int rank, int size);
  void watch(int peer, std::span<const int> neighbours, std::uint32_t flow,
             const std::array<char, 128>& id, failure_handler what);
  enum class direction : std::uint8_t { none, sends, receives };
  asio::awaitable<void> start(const std::array<char, 128>& id, direction of);

  const std::shared_ptr<detail::group> over_;
  const int version_;  ///< the lowest of all ranks
  accelerator& device_;
  failure_handler on_failure_;
  bool is_started_ = false;
  int watched_ = 0;  ///< the other rank of a pair
  buffer byte_;      ///< of the first message of a pair
  std::unique_ptr<detail::vendor_group> by_;
  std::unique_ptr<detail::peer_watch> watch_;
  std::shared_ptr<detail::library_watch> calls_;
};

}  // namespace tandem

#pragma GCC visibility pop
