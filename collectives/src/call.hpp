#pragma once

#include <array>
#include <memory>
#include <string>
#include <tandem/detail/flight.hpp>
#include <tandem/memory.hpp>

#include "board_visit.hpp"
#include "call_record.hpp"
#include "device_queue.hpp"
#include "group.hpp"

namespace tandem::detail {

/// One collective or pipeline under way, and the place it works in: transfers and scratch memory,
/// kept by the group from call to call.
class call {
 public:
  static constexpr std::size_t transfer_count = 8;
  enum class kind { collective, pipeline, level };

  explicit call(const asio::any_io_executor& executor)
      : executor_(executor), io(transfers, executor_), at_board(executor_) {}

  /// Part of the scratch memory, which has at least as many bytes as were asked for.
  mutable_view scratch(std::size_t offset, std::size_t bytes) const noexcept {
    return scratch_.view().part(offset, bytes);
  }
  /// How much of it there is where this queue works; null: on the host.
  std::size_t scratch_bytes(const device_queue* on) const noexcept;
  /// Has it there from now on.
  void reserve(std::size_t bytes, device_queue* on);

  /// On which it works: null for host memory, where all is done at once.
  device_queue* queue() const noexcept { return queue_; }
  /// What was queued may not be done yet: no transfer may touch that memory, and it is nobody
  /// else's.
  bool unsettled() const noexcept { return queue_ != nullptr && queue_->pending(); }
  /// @pre unsettled.
  asio::awaitable<void> settle() { return queue_->settle(); }
  /// Of equal length.
  void copy(mutable_view to, const_view from) const { copy_block(queue_, to, from); }

  /// Begins its visit to the board of its group, which ends with the call. @pre there is one, and
  /// the call is the newest of the group.
  void go_to_board() noexcept;
  /// What its messages say.
  const message_note& note() const noexcept { return in->note_of(number_); }
  /// Its place among the collectives of the group, modulo `group::calls_at_once`.
  unsigned number() const noexcept { return number_; }

  /// How far it has come, for errors: "ring step 2 of 6", or with no steps "forward of micro-batch
  /// 2".
  void at(const char* part, int step, int steps = 0) noexcept;

  /// Makes it a part of another call, among some of that one's ranks, with messages on flows of
  /// their own. @pre `level` is 1..3; the other one is open and outlives it.
  void be_level_of(const call& whole, unsigned level) noexcept;
  void open(group& in, kind which);
  void close() noexcept;
  /// The failure as this rank throws it, and as it tells the others.
  struct verdict {
    std::exception_ptr thrown;
    error told;
  };
  verdict judge(std::exception_ptr failure) const;

  group* in = nullptr;
  const char* name = "";
  call_record what{0};    ///< of a collective
  bool rewrites = false;  ///< what it sends: see `operation::rewritten`
  flow_id flow = 0;       ///< of a collective

 private:
  const asio::any_io_executor executor_;
  std::string phase(const std::string& inner) const;

 public:
  std::array<transfer, transfer_count> transfers;
  flight io;
  board_visit at_board;

 private:
  buffer scratch_;
  device_queue* queue_ = nullptr;
  const char* part_ = "";
  int step_ = 0;
  int steps_ = 0;
  kind kind_ = kind::collective;
  unsigned number_ = 0;
  bool open_ = false;
  const call* whole_ = nullptr;  // of a level
};

/// Keeps a group and one of its places together until the call is over.
class lease {
 public:
  /// @param queue  of the device where the call's views are, and its scratch memory; null: the host
  lease(std::shared_ptr<group> in, const char* name, std::size_t scratch_bytes = 0,
        device_queue* queue = nullptr);
  lease(std::shared_ptr<group> in, const call_record& what, std::size_t scratch_bytes = 0,
        device_queue* queue = nullptr);
  lease(lease&&) noexcept = default;
  lease& operator=(lease&&) = delete;
  ~lease();

  call& operator*() const noexcept { return *place_; }
  call* operator->() const noexcept { return place_.get(); }

 private:
  std::shared_ptr<group> in_;
  std::shared_ptr<call> place_;
};

/// Runs a collective's algorithm from its number to its end. When it fails, ends the group, tells
/// every rank, and throws once no transfer touches a view any more.
asio::awaitable<void> carry_out(lease place, asio::awaitable<void> algorithm,
                                call::kind what = call::kind::collective);

/// Ends the group of a call that has failed, and tells every rank. What to throw.
std::exception_ptr end_in_failure(call& c, std::exception_ptr failure);

/// Throws `reason` when awaited: how a call is refused.
asio::awaitable<void> refuse(error reason);

/// A call for which nothing need be sent. Throws what ended the group, if something did.
asio::awaitable<void> nothing(std::shared_ptr<group> in);

// Steps of many algorithms, with ranks of the group, which they connect to first. They use
// transfers 0 and 1, and settle what is queued before these touch anything.

asio::awaitable<void> send_to(call& c, int peer, const_view message);
asio::awaitable<void> recv_from(call& c, int peer, mutable_view into);
/// Both at the same time.
asio::awaitable<void> exchange(call& c, int to, const_view message, int from, mutable_view into);

// The same without a coroutine, for short messages. True: it is over already. False: the coroutine
// with the same arguments goes on from where this has come. @pre the flight is idle.

bool received(call& c, int peer, mutable_view into);
bool exchanged(call& c, int peer, const_view message, mutable_view into);

}  // namespace tandem::detail
