#include "call_watch.hpp"

#include <algorithm>

#include "group.hpp"

namespace tandem::detail {

/// A log being sent or received. Keeps itself alive until the channel has completed it.
struct call_watch::message : operation {
  message(std::shared_ptr<call_watch> watch, operation::kind k, int with)
      : of(std::move(watch)), peer(with), way(of.lock()->group_->to(with)) {
    what = k;
    flow = of.lock()->group_->flow(group::flow_class::watch, 0);
    view = mutable_view(&log, sizeof log);
    complete = [](operation& op) { static_cast<message&>(op).ended(); };
    destroy = [](operation& op) noexcept { static_cast<message&>(op).release(); };
  }

  /// @pre it is in `under_way_`.
  void start() {
    if (way.on->start(*this)) ended();
  }
  void ended() {
    const std::shared_ptr<call_watch> watch = of.lock();
    if (watch && what == kind::recv && !result) watch->hear(*this);
    release();
  }
  void release() noexcept {
    if (const std::shared_ptr<call_watch> watch = of.lock()) {
      std::erase_if(watch->under_way_, [this](const auto& one) { return one.get() == this; });
    }
    const std::shared_ptr<message> last = std::move(self);
  }

  std::weak_ptr<call_watch> of;
  std::shared_ptr<message> self;  // until the channel has completed it
  const int peer;                 // rank of the group
  const link way;
  call_log log;
};

call_watch::call_watch(group& of)
    : group_(&of), timer_(of.executor()), listens_(static_cast<std::size_t>(of.size())) {}

call_watch::~call_watch() = default;

void call_watch::stop() noexcept {
  group_ = nullptr;
  timer_.cancel();
  const auto left = std::exchange(under_way_, {});
  for (const auto& one : left) {
    if (one->at != operation::phase::done) one->way.on->cancel(*one);
  }
}

void call_watch::arm() {
  armed_ = true;
  timer_.expires_after(every);
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& cancelled) {
    const std::shared_ptr<call_watch> self = weak.lock();
    if (!cancelled && self && self->group_ != nullptr) self->look();
  });
}

void call_watch::look() {
  armed_ = false;
  const std::optional<std::uint64_t> open = group_->oldest_open();
  if (!open || group_->failed()) return;
  looks_ = *open == oldest_ ? looks_ + 1 : 0;
  oldest_ = *open;
  arm();
  if (looks_ >= looks_until_stuck) tell_everybody();
}

void call_watch::begin_message(operation::kind what, int peer) {
  const auto one = std::make_shared<message>(shared_from_this(), what, peer);
  if (what == operation::kind::send) one->log = group_->calls();
  one->self = one;
  under_way_.push_back(one);
  one->start();
}

void call_watch::tell_everybody() {
  const bool has_news = told_ != group_->calls().count();
  told_ = group_->calls().count();
  const int ranks = group_->size();
  for (int peer = 0; peer < ranks; ++peer) {
    // A received log may have ended the group.
    if (group_ == nullptr || group_->failed()) return;
    if (peer == group_->rank() || !group_->connected(peer)) continue;
    if (has_news) begin_message(operation::kind::send, peer);
    const auto index = static_cast<std::size_t>(peer);
    if (!listens_[index]) {
      listens_[index] = true;
      begin_message(operation::kind::recv, peer);
    }
  }
}

void call_watch::hear(const message& from) {
  if (group_ == nullptr || group_->failed()) return;
  listens_[static_cast<std::size_t>(from.peer)] = false;
  if (from.bytes != sizeof from.log) return;
  const std::optional<std::uint64_t> place = group_->calls().first_difference(from.log);
  if (!place) return;
  error_context c{.rank = group_->job_rank(),
                  .peer = from.way.peer,
                  .rail = {},
                  .phase = call_record(group_->calls().at(*place).call).name(),
                  .detail = group_->difference(*place, from.log.at(*place), from.way.peer),
                  .advice = "make the same calls in the same order on every rank"};
  group_->fail(error(make_error_code(errc::call_mismatch), c));
}

}  // namespace tandem::detail
