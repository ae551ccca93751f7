#include "call_watch.hpp"

#include <algorithm>

#include "group.hpp"

namespace tandem::detail {

/// One log on its way. Keeps itself until the channel has done with it.
struct call_watch::message : operation {
  message(std::shared_ptr<call_watch> watch, operation::kind k, link with, flow_id on)
      : of(std::move(watch)), way(with) {
    what = k;
    flow = on;
    view = mutable_view(bytes);
    complete = [](operation& op) { static_cast<message&>(op).ended(); };
    destroy = [](operation& op) noexcept { static_cast<message&>(op).release(); };
  }

  /// @pre the list of the watch holds it.
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
  std::shared_ptr<message> self;  // while the channel has it
  const link way;
  call_log::wire bytes{};
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

void call_watch::tell_everybody() {
  const bool has_news = told_ != group_->calls().count();
  told_ = group_->calls().count();
  const flow_id flow = group_->flow(group::flow_class::watch, 0);
  for (int peer = 0; peer < group_->size(); ++peer) {
    if (peer == group_->rank() || !group_->connected(peer)) continue;
    const link way = group_->to(peer);
    const auto begin = [&](operation::kind kind) {
      const auto one = std::make_shared<message>(shared_from_this(), kind, way, flow);
      if (kind == operation::kind::send) group_->calls().write(one->bytes);
      one->self = one;
      under_way_.push_back(one);
      one->start();
    };
    if (has_news) begin(operation::kind::send);
    if (group_ == nullptr || group_->failed()) return;
    if (listens_[static_cast<std::size_t>(peer)]) continue;
    listens_[static_cast<std::size_t>(peer)] = true;
    begin(operation::kind::recv);
    if (group_ == nullptr || group_->failed()) return;
  }
}

void call_watch::hear(const message& from) {
  if (group_ == nullptr || group_->failed()) return;
  for (int peer = 0; peer < group_->size(); ++peer) {
    if (group_->member(peer) == from.way.peer) listens_[static_cast<std::size_t>(peer)] = false;
  }
  const std::optional<call_log> theirs =
      call_log::read(std::span<const std::byte>(from.bytes).first(from.operation::bytes));
  if (!theirs) return;
  const std::optional<std::uint64_t> place = group_->calls().first_difference(*theirs);
  if (!place) return;
  error_context c{.rank = group_->job_rank(),
                  .peer = from.way.peer,
                  .rail = {},
                  .phase = call_record(group_->calls().at(*place).call).name(),
                  .detail = group_->difference(*place, theirs->at(*place), from.way.peer),
                  .advice = "make the same calls in the same order on every rank"};
  group_->fail(error(make_error_code(errc::call_mismatch), c));
}

}  // namespace tandem::detail
