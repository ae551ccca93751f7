#include "call_watch.hpp"

#include <algorithm>

#include "group.hpp"

namespace tandem::detail {

/// A log being sent or received. Keeps itself alive until the channel has completed it.
struct call_watch::message : operation {
  message(std::shared_ptr<call_watch> watch, operation::kind k, int with)
      : of(std::move(watch)), peer(with), path(of.lock()->group_->to(with)) {
    what = k;
    flow = of.lock()->group_->flow(group::flow_class::watch, 0);
    view = mutable_view(&log, sizeof log);
    complete = [](operation& op) { static_cast<message&>(op).ended(); };
    destroy = [](operation& op) noexcept { static_cast<message&>(op).release(); };
  }

  /// @pre it is in `in_flight_`.
  void start() {
    if (path.on->start(*this)) ended();
  }
  void ended() {
    const std::shared_ptr<call_watch> watch = of.lock();
    if (watch && what == kind::recv && !result) watch->receive_log(*this);
    release();
  }
  void release() noexcept {
    if (const std::shared_ptr<call_watch> watch = of.lock()) {
      std::erase_if(watch->in_flight_, [this](const auto& one) { return one.get() == this; });
    }
    const std::shared_ptr<message> last = std::move(self);
  }

  std::weak_ptr<call_watch> of;
  std::shared_ptr<message> self;  // until the channel has completed it
  const int peer;                 // rank of the group
  const peer_channel path;
  call_log log;
};

call_watch::call_watch(group& of)
    : group_(&of),
      timer_(of.executor()),
      receiving_(static_cast<std::size_t>(of.size())),
      reported_calls_(static_cast<std::size_t>(of.size())) {}

call_watch::~call_watch() = default;

void call_watch::stop() noexcept {
  group_ = nullptr;
  timer_.cancel();
  const auto left = std::exchange(in_flight_, {});
  for (const auto& one : left) {
    if (one->at != operation::phase::done) one->path.on->cancel(*one);
  }
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
  const auto one = std::make_shared<message>(shared_from_this(), what, peer);
  if (what == operation::kind::send) one->log = group_->calls();
  one->self = one;
  in_flight_.push_back(one);
  one->start();
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

void call_watch::receive_log(const message& from) {
  if (group_ == nullptr || group_->failed()) return;
  receiving_[static_cast<std::size_t>(from.peer)] = false;
  if (from.bytes != sizeof from.log) return;
  reported_calls_[static_cast<std::size_t>(from.peer)] = from.log.count();
  const std::optional<std::uint64_t> sequence = group_->calls().first_difference(from.log);
  if (!sequence) return;
  error_context c{.rank = group_->job_rank(),
                  .peer = from.path.peer,
                  .rail = {},
                  .phase = call_record(group_->calls().at(*sequence).call).name(),
                  .detail = group_->difference(*sequence, from.log.at(*sequence), from.path.peer),
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
