#include "call_watch.hpp"

#include <algorithm>

#include "group.hpp"

namespace tandem::detail {

call_watch::call_watch(group& of)
    : group_(&of),
      timer_(of.executor()),
      receiving_(static_cast<std::size_t>(of.size())),
      reported_calls_(static_cast<std::size_t>(of.size())) {}

call_watch::~call_watch() = default;

void call_watch::stop() noexcept {
  group_ = nullptr;
  timer_.cancel();
  in_flight_.drop();
}

void call_watch::arm() {
  armed_ = true;
  timer_.expires_after(poll_interval);
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& cancelled) {
    const std::shared_ptr<call_watch> self = weak.lock();
    if (!cancelled && self && self->group_ != nullptr) self->poll();
  });
}

void call_watch::poll() {
  armed_ = false;
  const std::optional<std::uint64_t> open = group_->oldest_open();
  if (!open || group_->failed()) return;
  unchanged_polls_ = *open == oldest_ ? unchanged_polls_ + 1 : 0;
  oldest_ = *open;
  arm();
  if (unchanged_polls_ >= polls_until_stuck) send_log_to_peers();
}

void call_watch::begin_message(operation::kind what, int peer) {
  const flow_id flow = group_->flow(group::watch_tag::calls);
  const auto one = std::make_shared<message>(what, group_->to(peer), flow);
  if (what == operation::kind::send) one->payload = group_->calls();
  in_flight_.start(one, [weak = weak_from_this(), peer](message& ended) {
    const std::shared_ptr<call_watch> watch = weak.lock();
    const bool is_log = ended.what == operation::kind::recv && !ended.result;
    if (watch && is_log) watch->receive_log(ended, peer);
  });
}

void call_watch::send_log_to_peers() {
  const bool has_new_calls = sent_count_ != group_->calls().count();
  sent_count_ = group_->calls().count();
  const int ranks = group_->size();
  for (int peer = 0; peer < ranks; ++peer) {
    // A received log may have ended the group.
    if (group_ == nullptr || group_->failed()) return;
    if (peer == group_->rank() || !group_->connected(peer)) continue;
    if (has_new_calls) begin_message(operation::kind::send, peer);
    const auto index = static_cast<std::size_t>(peer);
    if (!receiving_[index]) {
      receiving_[index] = true;
      begin_message(operation::kind::recv, peer);
    }
  }
}

void call_watch::receive_log(const message& from, int peer) {
  if (group_ == nullptr || group_->failed()) return;
  receiving_[static_cast<std::size_t>(peer)] = false;
  if (from.bytes != sizeof from.payload) return;
  reported_calls_[static_cast<std::size_t>(peer)] = from.payload.count();
  const std::optional<std::uint64_t> sequence = group_->calls().first_difference(from.payload);
  if (!sequence) return;
  error_context c{
      .rank = group_->job_rank(),
      .peer = from.path.peer,
      .rail = {},
      .phase = call_record(group_->calls().at(*sequence).call).name(),
      .detail = group_->difference(*sequence, from.payload.at(*sequence), from.path.peer),
      .advice = "make the same calls in the same order on every rank"};
  group_->fail(error(make_error_code(errc::call_mismatch), c));
}

std::vector<int> call_watch::silent_ranks(std::uint64_t sequence) const {
  std::vector<int> silent;
  if (group_ == nullptr || unchanged_polls_ < polls_until_all_report) return silent;
  for (int peer = 0; peer < group_->size(); ++peer) {
    const bool can_report = peer != group_->rank() && group_->connected(peer);
    if (can_report && reported_calls_[static_cast<std::size_t>(peer)] <= sequence)
      silent.push_back(peer);
  }
  return silent;
}

}  // namespace tandem::detail
