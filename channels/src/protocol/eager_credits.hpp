#pragma once

#include <cstdint>

#include "protocol/frame.hpp"
#include "protocol/limits.hpp"
#include "protocol/stable_queue.hpp"

namespace tandem::protocol {

/// The receiver's account of eager credits: what the peer has used, and what is reported back to it
/// as consumed. Every eager message costs its payload and `eager_overhead_bytes`.
class eager_credits {
 public:
  /// The part of one flow. Its address must not change.
  struct account {
    std::uint32_t outstanding = 0;  // cost of eager messages not yet consumed
    std::uint32_t consumed = 0;     // total, modulo 2^32
    std::uint32_t reported = 0;
    flow_id flow = 0;
    bool report_pending = false;  // in pending_
  };

  explicit eager_credits(const limits& agreed) : limits_(agreed) {}
  void set_limits(const limits& on) noexcept { limits_ = on; }

  /// False: the peer has exceeded its credits.
  bool covers(const account& of, const frame& eager) const noexcept {
    return eager.payload_bytes <= limits_.eager_bytes &&
           of.outstanding + cost_of(eager) <= limits_.flow_credit_bytes() &&
           outstanding_ + cost_of(eager) <= limits_.credit_bytes;
  }
  void charge(account& of, const frame& eager) noexcept;
  /// A message that was charged is consumed.
  void consume(account& of, const frame& eager);

  /// The credit field of a frame of this flow, which reports everything consumed so far.
  std::uint32_t report(account& of) noexcept;
  /// False: `next_report` has no frame.
  bool may_have_report() const noexcept {
    return reporting_ || unreported_ >= bytes_per_credit_frame();
  }
  /// The next credit frame to be sent, its credit field not yet filled in.
  bool next_report(frame& out);

 private:
  static std::uint32_t cost_of(const frame& eager) noexcept {
    return eager.payload_bytes + eager_overhead_bytes;
  }
  /// Credits are piggybacked on other frames; from this amount on they are sent on their own.
  std::uint32_t bytes_per_credit_frame() const noexcept { return limits_.flow_credit_bytes() / 4; }

  limits limits_;
  stable_queue<account*> pending_;
  std::uint32_t outstanding_ = 0;
  std::uint32_t unreported_ = 0;
  bool reporting_ = false;  // all pending credits are being sent
};

}  // namespace tandem::protocol
