#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <tandem/collectives/plan.hpp>
#include <tandem/detail/flight.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>
#include <vector>

#include "call_log.hpp"
#include "call_record.hpp"
#include "call_watch.hpp"

namespace tandem::detail {

class call;
class device_queue;
class levels;

/// What a communicator is made of; calls under way share it.
class group {
 public:
  enum class flow_class : std::uint32_t {
    point_to_point = 0,
    collective = 1,
    pipeline = 2,
    watch = 3
  };
  static constexpr unsigned calls_at_once = call_log::kept;

  group(fabric& over, const settings& options, std::vector<int> members, std::uint16_t id);
  group(const group&) = delete;
  group& operator=(const group&) = delete;
  ~group();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(members_.size()); }
  /// The rank in the job of a rank here.
  int member(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)]; }
  int job_rank() const noexcept { return member(rank_); }
  const asio::any_io_executor& executor() const noexcept { return executor_; }
  const settings& options() const noexcept { return options_; }
  fabric& over() const noexcept { return over_; }
  std::uint32_t id() const noexcept { return id_; }
  /// The plan; standard until the ranks have agreed on another one.
  const plan& agreed() const noexcept { return plan_; }
  /// That is what all ranks have agreed on.
  bool has_adopted() const noexcept { return has_adopted_; }
  /// All ranks adopt the same one. @pre no call is under way.
  void adopt(plan agreed);
  /// What the group knows of which this one is a part, of these ranks alone.
  facts facts_from(const group& whole) const;
  /// Its ranks by host.
  levels& hosts();
  /// What its ranks share for short calls, if they do; the same answer on all of them.
  board* shared_board() const noexcept { return board_.get(); }
  /// @pre all ranks have one, and no call is under way.
  void share(std::shared_ptr<board> made) noexcept { board_ = std::move(made); }
  /// `how`, or what takes its place where it asks for a board and there is none, or none for so
  /// many bytes.
  algorithm possible(collective what, algorithm how, std::size_t bytes) const noexcept;
  /// How a collective of such a length is done.
  const plan_rule& choose(collective what, std::size_t bytes) const noexcept {
    return plan_.choose(what, bytes);
  }

  flow_id flow(flow_class use, std::uint32_t tag) const noexcept {
    return id_ << 20 | static_cast<std::uint32_t>(use) << 16 | tag;
  }

  /// @pre `peer` is a rank here and another one.
  bool connected(int peer) const noexcept { return over_.find(member(peer)) != nullptr; }
  asio::awaitable<void> connect(int peer);
  /// `on` is null where they are not connected.
  link to(int peer) const noexcept { return {over_.find(member(peer)), member(peer)}; }

  /// Where this group's work on memory such as the view's is queued, made when first asked for;
  /// null for host memory. @par Errors `errc::unsupported_memory`: there is no such device;
  /// `device_failed`.
  device_queue* queue_for(const const_view& like) {
    return like.kind == memory_kind::host ? nullptr : queue_of_device(like);
  }

  /// A free place for a call to work in, with scratch memory where the queue works: one that was
  /// used before and holds at least so much, if there is one. `take` and `give_back` never suspend.
  /// @par Errors  as `buffer`.
  std::shared_ptr<call> take(std::size_t scratch_bytes, device_queue* queue);
  void give_back(std::shared_ptr<call> used) noexcept;

  /// The number of the next collective. @par Errors `limit_exceeded`; nothing has changed.
  unsigned open_number(const call_record& what);
  /// What the messages of an open collective say.
  const message_note& note_of(unsigned number) const noexcept { return calls_.at(number); }
  const call_log& calls() const noexcept { return calls_; }
  /// The place of the first call that is still under way.
  std::optional<std::uint64_t> oldest_open() const noexcept;
  /// In words: what this rank calls there, and what the peer does, rank `peer` of the job.
  std::string difference(std::uint64_t place, const message_note& theirs, int peer) const;
  void close_number(unsigned number) noexcept { open_ &= ~(std::uint64_t{1} << number); }
  void open_pipeline();
  void close_pipeline() noexcept { pipeline_open_ = false; }

  /// What ended this group, if something did.
  const std::optional<error>& failed() const noexcept { return failed_; }
  /// Throws it.
  void check_alive() const;
  /// Ends this group and tells every rank of the job.
  void fail(const error& reason) noexcept;

 private:
  device_queue* queue_of_device(const const_view& like);

  const process_origin origin_;
  fabric& over_;
  const asio::any_io_executor executor_;
  const std::vector<int> members_;
  int rank_ = 0;
  const std::uint32_t id_;
  const std::shared_ptr<fabric::group_ids> ids_in_use_;
  const settings options_;
  plan plan_;
  bool has_adopted_ = false;
  std::unique_ptr<levels> levels_;
  std::shared_ptr<board> board_;
  std::vector<std::unique_ptr<device_queue>> queues_;
  std::vector<std::shared_ptr<call>> free_;
  call_log calls_;
  const std::shared_ptr<call_watch> watch_;
  std::uint64_t open_ = 0;  // bit k: the collective numbered k is under way here
  bool pipeline_open_ = false;
  std::optional<error> failed_;
};

}  // namespace tandem::detail
