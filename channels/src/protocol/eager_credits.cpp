#include "protocol/eager_credits.hpp"

namespace tandem::protocol {

void eager_credits::charge(account& of, const frame& eager) noexcept {
  of.outstanding += cost_of(eager);
  outstanding_ += cost_of(eager);
}

void eager_credits::consume(account& of, const frame& eager) {
  const std::uint32_t cost = cost_of(eager);
  of.outstanding -= cost;
  outstanding_ -= cost;
  of.consumed += cost;
  unreported_ += cost;
  if (of.report_pending) return;
  of.report_pending = true;
  of.flow = eager.flow;
  pending_.push_back(&of);
}

std::uint32_t eager_credits::report(account& of) noexcept {
  unreported_ -= of.consumed - of.reported;
  of.reported = of.consumed;
  return of.consumed;
}

/// All pending credits go out in one write: stopping below the limit would reach it again with the
/// next message.
bool eager_credits::next_report(frame& out) {
  reporting_ = may_have_report() && !pending_.empty();
  while (reporting_) {
    account& of = *pending_.front();
    pending_.pop_front();
    of.report_pending = false;
    reporting_ = !pending_.empty();
    if (of.consumed == of.reported) continue;
    out = {};
    out.type = frame_type::credit;
    out.flow = of.flow;
    return true;
  }
  return false;
}

}  // namespace tandem::protocol
