#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transports/rails/verbs/queue_pair.hpp"
#include "transports/rails/verbs/request_id.hpp"

namespace tandem::verbs {

/// The receives of one queue pair: one for each slot of memory, posted until it completes.
class receive_queue {
 public:
  /// The registered memory that receives write to.
  struct slots {
    std::byte* first = nullptr;
    std::uint32_t count = 0;
    std::uint32_t bytes = 0;  ///< of each
    std::uint32_t key = 0;
  };

  receive_queue() = default;
  /// @param on  outlives it
  receive_queue(queue_pair& on, request_kind what, const slots& into)
      : pair_(&on), what_(what), slots_(into), generations_(into.count) {}

  std::uint32_t size() const noexcept { return slots_.count; }
  /// Posts the receive of a slot. @return 0, or the errno
  int post(std::uint32_t slot) noexcept {
    ibv_sge into{reinterpret_cast<std::uint64_t>(slots_.first) + std::uint64_t{slot} * slots_.bytes,
                 slots_.bytes, slots_.key};
    ibv_recv_wr wr{};
    wr.wr_id = encode(request_id{what_, slot, ++generations_[slot]});
    wr.sg_list = &into;
    wr.num_sge = 1;
    const int failure = pair_->post(wr);
    if (failure == 0) ++posted_;
    return failure;
  }
  /// A receive has completed or was flushed.
  void retire() noexcept { --posted_; }
  /// False: the receive was completed before.
  bool is_current(const request_id& id) const noexcept {
    return id.slot < generations_.size() && generations_[id.slot] == id.generation;
  }
  bool is_empty() const noexcept { return posted_ == 0; }

 private:
  queue_pair* pair_ = nullptr;
  request_kind what_ = request_kind::record_in;
  slots slots_;
  std::vector<std::uint32_t> generations_;  // by slot
  std::uint32_t posted_ = 0;
};

/// Received bytes, valid until its receive is posted again.
struct received_record {
  std::span<const std::byte> bytes;
  std::uint32_t receive = 0;  ///< the posted receive that it consumed
  bool is_chunk = false;
};

/// The records that were received and not yet read, in order.
class received_records {
 public:
  /// @param receives  posted at most, so no more records can wait
  explicit received_records(std::uint32_t receives) : ring_(receives) {}

  bool any() const noexcept { return count_ > 0; }
  const received_record& front() const noexcept { return ring_[first_]; }
  void push(const received_record& it) noexcept { ring_[(first_ + count_++) % ring_.size()] = it; }
  void pop() noexcept {
    first_ = (first_ + 1) % ring_.size();
    --count_;
  }

 private:
  std::vector<received_record> ring_;
  std::size_t first_ = 0, count_ = 0;
};

}  // namespace tandem::verbs
