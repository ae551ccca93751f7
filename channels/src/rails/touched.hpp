#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <tandem/operation.hpp>
#include <vector>

#include "rails/envelope.hpp"

namespace tandem::rails {

/// Views that NICs may access, without I/O: those that NICs of this end still read, and those that
/// the peer's NICs may write, by lane. A few at a time.
class touched {
 public:
  /// Identifies one chunk that a NIC of this end reads.
  using token = std::uint64_t;
  static token token_of(std::uint32_t epoch, std::uint32_t number) noexcept {
    return std::uint64_t{epoch} << 32 | number;
  }

  // Read by NICs of this end.
  void reads(std::uint16_t lane, token which, operation& op) {
    reads_.push_back({&op, which, lane});
  }
  /// The read has completed; returns its operation, or null where it is unknown.
  operation* read(std::uint16_t lane, token which) noexcept {
    for (reading& one : reads_) {
      if (one.lane != lane || one.which != which) continue;
      operation* const op = one.op;
      one = reads_.back();
      reads_.pop_back();
      return op;
    }
    return nullptr;
  }

  // Written by the peer.
  void lend(operation& op, std::uint16_t lane, std::uint32_t epoch) {
    loans_.push_back({&op, epoch, lane, {}});
  }
  bool is_lent(const operation& op) const noexcept {
    return std::any_of(loans_.begin(), loans_.end(),
                       [&op](const loan& one) { return one.op == &op; });
  }
  void returned(const operation& op) noexcept {
    std::erase_if(loans_, [&op](const loan& one) { return one.op == &op; });
  }

  /// No NIC accesses memory for this lane any more, up to this epoch.
  /// @param read_ops     receives the operations whose views it still read, once per read
  /// @param granted_ops  receives those that the peer could write over this lane only
  void quiet(std::uint16_t lane, std::uint32_t epoch, std::vector<operation*>& read_ops,
             std::vector<operation*>& granted_ops) {
    std::erase_if(reads_, [&](const reading& one) {
      const auto of_one = static_cast<std::uint32_t>(one.which >> 32);
      if (one.lane != lane || ahead(of_one, epoch) > 0) return false;
      read_ops.push_back(one.op);
      return true;
    });
    std::erase_if(loans_, [&](const loan& one) {
      if (one.lane != lane || ahead(one.epoch, epoch) > 0) return false;
      granted_ops.push_back(one.op);
      return true;
    });
    std::erase_if(granted_ops, [this](const operation* op) { return is_lent(*op); });
  }

  using clock = std::chrono::steady_clock;
  /// True where an operation was complete for at least `limit`, as observed by these calls, and the
  /// peer may still write its view over this lane.
  bool waits_too_long(std::uint16_t lane, clock::time_point now, clock::duration limit) {
    bool found = false;
    for (loan& one : loans_) {
      if (one.lane != lane || one.op->at != operation::phase::done) continue;
      if (!one.over_since) one.over_since = now;
      found = found || now - *one.over_since >= limit;
    }
    return found;
  }
  bool empty() const noexcept { return reads_.empty() && loans_.empty(); }
  void clear() noexcept {
    reads_.clear();
    loans_.clear();
  }

 private:
  struct reading {
    operation* op;
    token which;
    std::uint16_t lane;
  };
  struct loan {
    operation* op;
    std::uint32_t epoch;
    std::uint16_t lane;
    std::optional<clock::time_point> over_since;
  };
  std::vector<reading> reads_;
  std::vector<loan> loans_;
};

}  // namespace tandem::rails
