#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <tandem/detail/flight.hpp>
#include <tandem/memory.hpp>
#include <vector>

#include "board_access.hpp"
#include "call_record.hpp"
#include "group.hpp"
#include "reduce/device_queue.hpp"

namespace tandem::detail {

/// One collective or pipeline in progress, with its transfers and scratch memory, which the group
/// keeps from call to call.
class call {
 public:
  static constexpr std::size_t transfer_count = 8;
  enum class kind { collective, pipeline, level };

  explicit call(const asio::any_io_executor& executor)
      : executor_(executor), io(transfers, executor_), board_io(executor_) {}

  /// Part of the scratch memory. @pre it lies within the bytes that were reserved.
  mutable_view scratch(std::size_t offset, std::size_t bytes) const noexcept {
    return scratch_.view().part(offset, bytes);
  }
  /// Bytes of scratch memory on the device of this queue; null: on the host.
  std::size_t scratch_bytes(const device_queue* on) const noexcept;
  /// It has scratch memory, but not there.
  bool has_scratch_elsewhere(const device_queue* on) const noexcept {
    return scratch_.view().bytes > 0 && scratch_bytes(on) == 0;
  }
  /// Ensures that many bytes of scratch memory there.
  void reserve(std::size_t bytes, device_queue* on);

  /// At least that many transfers for this call: `transfers`, or more of its own. @pre idle
  std::span<transfer> reserve_transfers(std::size_t count);

  /// The queue for its copies and reductions; null for host memory, where they are done
  /// immediately.
  device_queue* queue() const noexcept { return queue_; }
  /// Queued device work may be incomplete: no transfer may access that memory, and it must not be
  /// returned to the caller.
  bool outstanding() const noexcept { return queue_ != nullptr && queue_->pending(); }
  /// @pre there is outstanding work.
  asio::awaitable<void> synchronize() { return queue_->synchronize(); }
  /// @pre both views have the same length.
  void copy(mutable_view to, const_view from) const { copy_block(queue_, to, from); }

  /// Opens its access to the board of its group, which ends with the call. @pre the group has a
  /// board, and this is its newest call.
  void open_board() noexcept;
  /// The call record that its messages carry.
  const call_signature& signature() const noexcept { return in->signature_of(number_); }
  /// Its sequence number among the collectives of the group, modulo `group::calls_at_once`.
  unsigned number() const noexcept { return number_; }

  /// Sets the progress that errors report: "ring step 2 of 6", or without steps "forward of
  /// micro-batch 2".
  void at(const char* part, int step, int steps = 0) noexcept;

  /// Makes it a level of another call: it runs among some of that call's ranks, with messages on
  /// separate flows. @pre `level` is 1..3; the other call is open and outlives this one.
  void make_level_of(const call& parent, unsigned level) noexcept;
  void open(group& in, kind which);
  void close() noexcept;
  /// The failure as this rank throws it, and as it reports it to the other ranks.
  struct failure_report {
    std::exception_ptr thrown;
    error reported;
  };
  failure_report classify_failure(std::exception_ptr failure) const;

  group* in = nullptr;
  const char* name = "";
  call_record what{0};    ///< for collectives
  bool rewrites = false;  ///< it overwrites data that it sends: see `operation::rewritten`
  flow_id flow = 0;       ///< for collectives

 private:
  const asio::any_io_executor executor_;
  std::string phase(const std::string& inner) const;

 public:
  std::array<transfer, transfer_count> transfers;  ///< of a call that reserves no others
  flight io;
  board_access board_io;

 private:
  buffer scratch_;
  std::vector<transfer> more_transfers_;
  device_queue* queue_ = nullptr;
  const char* part_ = "";
  int step_ = 0;
  int steps_ = 0;
  kind kind_ = kind::collective;
  unsigned number_ = 0;
  bool open_ = false;
  std::chrono::steady_clock::time_point began_;  // where its time is measured
  const call* parent_ = nullptr;                 // the call that this one is a level of
};

/// Owns a pooled call of a group until that call is over, and keeps the group alive.
class lease {
 public:
  /// @param queue  of the device of the call's views and scratch memory; null: host memory
  lease(std::shared_ptr<group> in, const char* name, std::size_t scratch_bytes = 0,
        device_queue* queue = nullptr);
  lease(std::shared_ptr<group> in, const call_record& what, std::size_t scratch_bytes = 0,
        device_queue* queue = nullptr);
  lease(lease&&) noexcept = default;
  lease& operator=(lease&&) = delete;
  ~lease();

  call& operator*() const noexcept { return *call_; }
  call* operator->() const noexcept { return call_.get(); }

 private:
  std::shared_ptr<group> in_;
  std::shared_ptr<call> call_;
};

/// Opens the call, runs the algorithm and closes the call. On failure ends the group, reports the
/// failure to every rank, and throws once no transfer accesses a view any more.
asio::awaitable<void> run_call(lease slot, asio::awaitable<void> algorithm,
                               call::kind what = call::kind::collective);

/// Waits for its turn among the collectives that were started before it. The caller opens it before
/// it suspends again. @pre `group::must_queue`. @par Failure and cancellation  Ends the group.
asio::awaitable<void> queue_call(call& c);

/// Ends the group of a failed call and reports the failure to every rank. Returns the exception to
/// throw on this rank.
std::exception_ptr fail_call(call& c, std::exception_ptr failure);

/// Throws `reason` when awaited: the result of a call with invalid arguments.
asio::awaitable<void> refuse(error reason);

/// A call without messages. Throws the group's failure if the group has ended.
asio::awaitable<void> empty_call(std::shared_ptr<group> in);

// Steps shared by many algorithms. They connect to the peer if needed, use transfers 0 and 1, and
// wait for queued device work before these access any memory.

asio::awaitable<void> send_to(call& c, int peer, const_view message);
asio::awaitable<void> recv_from(call& c, int peer, mutable_view into);
/// Sends and receives at the same time.
asio::awaitable<void> exchange(call& c, int to, const_view message, int from, mutable_view into);

// The same without a coroutine, for short messages. True: already complete. False: await the
// coroutine with the same arguments, which continues from there. @pre the flight is idle.

bool received(call& c, int peer, mutable_view into);
bool exchanged(call& c, int peer, const_view message, mutable_view into);

}  // namespace tandem::detail
