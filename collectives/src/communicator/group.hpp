#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <tandem/async.hpp>
#include <tandem/detail/flight.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/loop_owner.hpp>
#include <tandem/detail/meter.hpp>
#include <tandem/fabric.hpp>
#include <tandem/plan.hpp>
#include <tandem/settings.hpp>
#include <utility>
#include <vector>

#include "call_log.hpp"
#include "call_record.hpp"
#include "call_watch.hpp"
#include "device_backend.hpp"

namespace tandem::detail {

class call;
struct checked_pipeline;
class device_queue;
class levels;
class open_message;

/// The state of a communicator, shared with its calls in progress.
class group : public std::enable_shared_from_this<group> {
 public:
  enum class flow_class : std::uint32_t {
    point_to_point = 0,
    collective = 1,
    pipeline = 2,
    watch = 3,
    window = 4,
    stream = 5
  };
  /// Of flows of the class `watch`.
  enum class watch_tag : std::uint32_t {
    calls = 0,
    loss = 1,
    library = 2,  ///< calls of a vendor's library
    // Of messages between two ranks by it, from the lower rank and from the higher one.
    library_lower = 3,
    library_higher = 4,
  };
  static constexpr unsigned calls_at_once = call_log::capacity;

  group(fabric& over, const settings& options, std::vector<int> members, std::uint16_t id);
  group(const group&) = delete;
  group& operator=(const group&) = delete;
  ~group();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(members_.size()); }
  /// The job rank of a rank of the group.
  int member(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)]; }
  int job_rank() const noexcept { return member(rank_); }
  const asio::any_io_executor& executor() const noexcept { return executor_; }
  const settings& options() const noexcept { return options_; }
  fabric& over() const noexcept { return fabric_; }
  std::uint32_t id() const noexcept { return id_; }
  /// The plan; `plan::standard` until the ranks have adopted an agreed one.
  const plan& agreed() const noexcept { return plan_; }
  /// Whether the plan is an agreed one.
  bool has_adopted() const noexcept { return has_adopted_; }
  /// Time limit of operations that start from now on; empty: that of the fabric's settings.
  void set_timeout(std::optional<std::chrono::milliseconds> limit) noexcept { timeout_ = limit; }
  /// The deadline of an operation that starts now; `time_point::max()`: the fabric's.
  operation::time_point deadline() const noexcept;
  /// Replaces the plan. @pre all ranks adopt the same one, and no call is in progress.
  void adopt(plan agreed);
  /// The facts about this group's ranks from the plan of `parent`, the group it was split from.
  facts facts_from(const group& parent) const;
  /// Its ranks by host.
  levels& hosts();
  /// The number of a new window, the same on all ranks.
  std::uint32_t next_window() noexcept { return next_window_++; }
  /// The rank that the next receive from any probes first: each in turn.
  int first_probed() const noexcept { return first_probed_; }
  void set_first_probed(int rank) noexcept { first_probed_ = rank; }
  /// The board for short calls; null if there is none. The same on all ranks.
  board* shared_board() const noexcept { return board_.get(); }
  /// @pre all ranks have one, and no call is in progress.
  void set_board(std::shared_ptr<board> made) noexcept { board_ = std::move(made); }
  call_metrics& metrics() noexcept { return metrics_; }
  /// Carries calls on device memory; null: channels do. The same on all ranks.
  device_backend* islands() const noexcept { return islands_.get(); }
  const backend_description& backend() const noexcept { return backend_; }
  /// @pre all ranks do, and no call is in progress. @param made  may be null
  void set_backend(std::unique_ptr<device_backend> made, backend_description what) noexcept;
  /// `how`, or its replacement if it is `board` and the group has no board, or the length is too
  /// long for one.
  algorithm resolve_algorithm(collective what, algorithm how, std::size_t bytes) const noexcept;
  /// The plan's rule for a collective of that length.
  const plan_rule& choose(collective what, std::size_t bytes) const noexcept {
    return plan_.choose(what, bytes);
  }

  flow_id flow(flow_class use, std::uint32_t tag) const noexcept {
    return id_ << 20 | static_cast<std::uint32_t>(use) << 16 | tag;
  }
  flow_id flow(watch_tag tag) const noexcept {
    return flow(flow_class::watch, static_cast<std::uint32_t>(tag));
  }

  /// @pre `peer` is another rank of the group.
  bool connected(int peer) const noexcept { return fabric_.find(member(peer)) != nullptr; }
  asio::awaitable<void> connect(int peer);
  /// The link to the peer; its `on` is null if they are not connected.
  peer_channel to(int peer) const noexcept { return {fabric_.find(member(peer)), member(peer)}; }

  /// The queue for this group's work on the view's memory, made on first use; null for host memory.
  /// @par Errors `errc::unsupported_memory`: there is no such device;
  /// `device_failed`.
  device_queue* queue_for(const const_view& like) {
    return like.kind == memory_kind::host ? nullptr : queue_of_device(like);
  }

  /// Gets a call from the pool, with scratch memory on the queue's device, preferring one that
  /// already has at least that many bytes. `acquire` and `release` never suspend.
  /// @par Errors  As `buffer`.
  std::shared_ptr<call> acquire(std::size_t scratch_bytes, device_queue* queue);
  void release(std::shared_ptr<call> used) noexcept;

  /// Whether the next collective has to wait for the end of an older one: `calls_at_once` are in
  /// progress, or others wait already.
  bool must_queue() const noexcept { return queued_ != 0 || is_open(calls_.count()); }
  /// Waits for its turn among the calls that were started before it.
  /// @par Cancellation  Terminal: throws operation_aborted; the calls behind it move up.
  asio::awaitable<void> queue();
  /// The number of the next collective. @pre it need not queue.
  unsigned open_number(const call_record& what);
  /// The call record that the messages of an open collective carry.
  const call_signature& signature_of(unsigned number) const noexcept { return calls_.at(number); }
  const call_log& calls() const noexcept { return calls_; }
  /// The sequence number of the oldest call in progress.
  std::optional<std::uint64_t> oldest_open() const noexcept;
  /// "ranks 2 and 3 have not called all_reduce", of the oldest call in progress; empty: not known.
  std::string missing_call() const;
  /// Error text for a call that differs on this rank and on rank `peer` of the job.
  std::string difference(std::uint64_t sequence, const call_signature& theirs, int peer) const;
  void close_number(unsigned number) noexcept {
    open_ &= ~(std::uint64_t{1} << number);
    if (queued_ != 0) turn_.notify_all();
  }
  void open_pipeline();
  void close_pipeline() noexcept { pipeline_open_ = false; }
  /// The schedule that was checked last for this group; null before the first.
  const std::shared_ptr<const checked_pipeline>& last_pipeline() const noexcept {
    return last_pipeline_;
  }
  void keep_pipeline(std::shared_ptr<const checked_pipeline> checked) noexcept {
    last_pipeline_ = std::move(checked);
  }

  /// The failure that ended this group; empty while it is usable.
  const std::optional<error>& failed() const noexcept { return failed_; }
  /// Throws that failure, if any.
  void throw_if_failed() const;
  /// Ends this group and reports the failure to every rank of the job.
  void fail(const error& reason) noexcept;
  /// The communicator is gone: ends its messages, and if a collective or a pipeline is in progress,
  /// the group.
  void close() noexcept;
  /// Throws what ends the calls of a communicator that is gone.
  void throw_if_closed() const {
    if (is_closed_) throw closed();
  }

 private:
  friend class open_message;

  static error closed();
  device_queue* queue_of_device(const const_view& like);
  bool is_open(std::uint64_t sequence) const noexcept {
    return (open_ >> sequence % calls_at_once & 1) != 0;
  }

  const process_origin origin_;
  fabric& fabric_;
  const asio::any_io_executor executor_;
  const loop_owner owner_;
  const std::vector<int> members_;
  int rank_ = 0;
  const std::uint32_t id_;
  const std::shared_ptr<fabric::group_ids> ids_in_use_;
  const settings options_;
  std::optional<std::chrono::milliseconds> timeout_;
  plan plan_;
  bool has_adopted_ = false;
  std::unique_ptr<levels> levels_;
  std::shared_ptr<board> board_;
  std::vector<std::unique_ptr<device_queue>> queues_;
  std::vector<std::shared_ptr<call>> free_;
  call_log calls_;
  const std::shared_ptr<call_watch> watch_;
  std::uint64_t open_ = 0;         // bit k: the collective with number k is in progress
  std::uint64_t queued_ = 0;       // collectives that wait for their turn
  std::uint64_t next_ticket_ = 0;  // of the next one that has to
  std::uint64_t turn_of_ = 0;      // the ticket whose turn it is
  async_condition turn_;
  bool pipeline_open_ = false;
  int first_probed_ = 0;  ///< by the next `recv_any`
  std::uint32_t next_window_ = 0;
  open_message* messages_ = nullptr;
  bool is_closed_ = false;
  std::shared_ptr<const checked_pipeline> last_pipeline_;
  std::optional<error> failed_;
  backend_description backend_;
  std::unique_ptr<device_backend> islands_;
  call_metrics metrics_;
};

/// A message in progress, which `group::close` ends. Lives in the frame of the coroutine that sends
/// or receives, which keeps the group alive.
class open_message {
 public:
  open_message(group& in, flight& io) noexcept : in_(in), io_(io), next_(in.messages_) {
    if (next_ != nullptr) next_->previous_ = this;
    in.messages_ = this;
  }
  open_message(const open_message&) = delete;
  open_message& operator=(const open_message&) = delete;
  ~open_message() { leave(); }

 private:
  friend class group;

  /// Out of the group's list. Idempotent.
  void leave() noexcept {
    if (!std::exchange(is_listed_, false)) return;
    (previous_ != nullptr ? previous_->next_ : in_.messages_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
  }

  group& in_;
  flight& io_;
  open_message* next_;
  open_message* previous_ = nullptr;
  bool is_listed_ = true;
};

}  // namespace tandem::detail
