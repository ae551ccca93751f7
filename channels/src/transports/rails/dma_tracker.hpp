#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <tandem/channel.hpp>
#include <vector>

#include "transports/rails/envelope.hpp"

namespace tandem::rails {

/// Views that NICs may access, without I/O: those that NICs of this end still read, and those that
/// the peer's NICs may write, by lane. A few at a time.
class dma_tracker {
 public:
  /// Identifies one chunk that a NIC of this end reads.
  using token = std::uint64_t;
  static token token_of(std::uint32_t epoch, std::uint32_t number) noexcept {
    return std::uint64_t{epoch} << 32 | number;
  }

  // Read by NICs of this end.
  void begin_read(std::uint16_t lane, token which, operation& op) {
    active_reads_.push_back({&op, which, lane});
  }
  /// The read has completed; returns its operation, or null where it is unknown.
  operation* end_read(std::uint16_t lane, token which) noexcept {
    for (active_read& one : active_reads_) {
      if (one.lane != lane || one.which != which) continue;
      operation* const op = one.op;
      one = active_reads_.back();
      active_reads_.pop_back();
      return op;
    }
    return nullptr;
  }

  // Written by the peer.
  void grant_writes(operation& op, std::uint16_t lane, std::uint32_t epoch) {
    write_grants_.push_back({&op, epoch, lane, {}});
  }
  bool is_granted(const operation& op) const noexcept {
    return std::any_of(write_grants_.begin(), write_grants_.end(),
                       [&op](const write_grant& one) { return one.op == &op; });
  }
  void grants_ended(const operation& op) noexcept {
    std::erase_if(write_grants_, [&op](const write_grant& one) { return one.op == &op; });
  }

  /// No NIC accesses memory for this lane any more, up to this epoch.
  /// @param read_ops     receives the operations whose views it still read, once per read
  /// @param granted_ops  receives those that the peer could write over this lane only
  void lane_quiesced(std::uint16_t lane, std::uint32_t epoch, std::vector<operation*>& read_ops,
                     std::vector<operation*>& granted_ops) {
    std::erase_if(active_reads_, [&](const active_read& one) {
      const auto of_one = static_cast<std::uint32_t>(one.which >> 32);
      if (one.lane != lane || ahead(of_one, epoch) > 0) return false;
      read_ops.push_back(one.op);
      return true;
    });
    std::erase_if(write_grants_, [&](const write_grant& one) {
      if (one.lane != lane || ahead(one.epoch, epoch) > 0) return false;
      granted_ops.push_back(one.op);
      return true;
    });
    std::erase_if(granted_ops, [this](const operation* op) { return is_granted(*op); });
  }

  using clock = std::chrono::steady_clock;
  /// True where an operation was complete for at least `limit`, as observed by these calls, and the
  /// peer may still write its view over this lane.
  bool has_overdue_grant(std::uint16_t lane, clock::time_point now, clock::duration limit) {
    bool found = false;
    for (write_grant& one : write_grants_) {
      if (one.lane != lane || one.op->at != operation::phase::done) continue;
      if (!one.completed_at) one.completed_at = now;
      found = found || now - *one.completed_at >= limit;
    }
    return found;
  }
  bool empty() const noexcept { return active_reads_.empty() && write_grants_.empty(); }
  void clear() noexcept {
    active_reads_.clear();
    write_grants_.clear();
  }

 private:
  struct active_read {
    operation* op;
    token which;
    std::uint16_t lane;
  };
  struct write_grant {
    operation* op;
    std::uint32_t epoch;
    std::uint16_t lane;
    std::optional<clock::time_point> completed_at;
  };
  std::vector<active_read> active_reads_;
  std::vector<write_grant> write_grants_;
};

}  // namespace tandem::rails
