#include "pipeline/links.hpp"

#include <algorithm>

namespace tandem::detail {

links::links(pipeline_placement placement, int ranks, int chunks, message_cost cost, int buffers)
    : cost_(cost),
      sender_buffers_(std::max(buffers / 2, 1)),
      receiver_buffers_(buffers - buffers / 2),
      flows_(index(2 * ranks * chunks)),
      links_(index(2 * ranks)) {
  // A rank sends to the next one and to the one before it, which of two ranks are the same.
  const auto between = [ranks](int from, int to) {
    return 2 * from + (to == (from + 1) % ranks ? 0 : 1);
  };
  for (int stage = 0; stage + 1 < ranks * chunks; ++stage) {
    const int here = location_of(placement, stage, ranks).rank;
    const int next = location_of(placement, stage + 1, ranks).rank;
    if (here == next) continue;
    flows_[index(2 * stage)].link = between(here, next);
    flows_[index(2 * stage + 1)].link = between(next, here);
  }
}

void links::produced(int flow, std::int64_t now) {
  const int over = flows_[index(flow)].link;
  links_[index(over)].waiting.push_back(flow);
  begin_messages(over, now);
}

void links::consumed(int flow, std::int64_t now) {
  ++flows_[index(flow)].consumed;
  begin_messages(flows_[index(flow)].link, now);
}

void links::begin_messages(int which, std::int64_t now) {
  link_state& over = links_[index(which)];
  while (over.free_at <= now) {
    const auto next = std::find_if(over.waiting.begin(), over.waiting.end(), [this](int waiting) {
      const flow_state& of = flows_[index(waiting)];
      return of.begun - of.consumed < receiver_buffers_;
    });
    if (next == over.waiting.end()) return;
    const int of = *next;
    over.waiting.erase(next);
    ++flows_[index(of)].begun;
    over.free_at = now + cost_.transmission;
    events_.push({over.free_at, none, which});
    events_.push({over.free_at + cost_.latency, of, none});
  }
}

std::optional<std::int64_t> links::next_event() const {
  if (events_.empty()) return std::nullopt;
  return events_.top().at;
}

void links::advance(std::int64_t now) {
  while (!events_.empty() && events_.top().at == now) {
    const event done = events_.top();
    events_.pop();
    if (done.arrived_on != none) ++flows_[index(done.arrived_on)].arrived;
    if (done.freed != none) begin_messages(done.freed, now);
  }
}

}  // namespace tandem::detail
