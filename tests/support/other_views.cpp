#include "support/other_views.hpp"

#include <algorithm>
#include <cstring>
#include <list>
#include <utility>

#include "doubles/allocations.hpp"

namespace tandem::test {
namespace {

class proxy_operation;
using proxy_operations = std::list<std::unique_ptr<proxy_operation>>;

/// An operation of the inner channel in place of a user's.
class proxy_operation : public operation {
 public:
  proxy_operation(operation& user, std::shared_ptr<proxy_operations> in,
                  std::unique_ptr<other_view> memory)
      : all_(std::move(in)), user_(user), memory_(std::move(memory)) {
    what = user.what;
    flow = user.flow;
    deadline = user.deadline;
    signature = user.signature;
    view = memory_->get();
    if (is_copied()) std::memcpy(memory_->bytes(), user.view.data, view.bytes);
    complete = [](operation& op) {
      auto& self = static_cast<proxy_operation&>(op);
      operation& completed = self.user_;
      self.complete_user();
      completed.complete(completed);
    };
    destroy = [](operation& op) noexcept {
      auto& self = static_cast<proxy_operation&>(op);
      operation& destroyed = self.user_;
      self.remove_self();
      if (destroyed.destroy != nullptr) destroyed.destroy(destroyed);
    };
  }

  bool is_of(const operation& user) const noexcept { return &user_ == &user; }
  /// Publishes the phase, which a user may read while the operation is pending.
  void publish_phase() noexcept { user_.move_to(at); }
  /// Completes the user's operation and deletes this object.
  void complete_user() {
    if (what == kind::recv && is_copied()) {
      std::memcpy(user_.view.data, memory_->bytes(), view.bytes);
    }
    user_.result = result;
    user_.failure = failure;
    user_.bytes = bytes;
    user_.total_bytes = total_bytes;
    user_.peer_signature = peer_signature;
    user_.move_to(phase::done);
    remove_self();
  }

 private:
  bool is_copied() const { return view.bytes > 0 && memory_->bytes() != nullptr; }
  void remove_self() noexcept {
    const std::shared_ptr<proxy_operations> in = all_;
    in->remove_if([this](const auto& each) { return each.get() == this; });
  }

  const std::shared_ptr<proxy_operations> all_;
  operation& user_;
  const std::unique_ptr<other_view> memory_;
};

class other_views final : public channel {
 public:
  other_views(std::unique_ptr<channel> below, other_view_maker make)
      : below_(std::move(below)), make_(std::move(make)), limits_(below_->limits()) {
    limits_.kinds.assign(1, memory_kind::host);
  }
  ~other_views() override {
    below_.reset();
    for (const auto& each : *pending_) each->publish_phase();
  }
  asio::any_io_executor get_executor() const noexcept override { return below_->get_executor(); }
  const channel_limits& limits() const noexcept override { return limits_; }
  channel_stats stats() const noexcept override { return below_->stats(); }
  void fail(const error& reason) noexcept override { below_->fail(reason); }

  bool start(operation& user) override {
    proxy_operation& op = add(user);
    if (below_->start(op)) {
      op.complete_user();
      return true;
    }
    op.publish_phase();
    return false;
  }
  void cancel(operation& user) noexcept override {
    for (const auto& each : *pending_) {
      if (each->is_of(user)) return below_->cancel(*each);
    }
  }

 private:
  proxy_operation& add(operation& user) {
    const not_counted by_the_test;
    pending_->push_back(std::make_unique<proxy_operation>(user, pending_, make_(user.view)));
    return *pending_->back();
  }

  std::unique_ptr<channel> below_;
  const other_view_maker make_;
  channel_limits limits_;
  const std::shared_ptr<proxy_operations> pending_ = std::make_shared<proxy_operations>();
};

class same_view final : public other_view {
 public:
  explicit same_view(const mutable_view& view) : view_(view) {}
  mutable_view get() const override { return view_; }
  void* bytes() const override { return nullptr; }

 private:
  const mutable_view view_;
};

}  // namespace

std::unique_ptr<other_view> as_it_is(const mutable_view& view) {
  return std::make_unique<same_view>(view);
}

std::unique_ptr<channel> with_other_views(std::unique_ptr<channel> below, other_view_maker make) {
  return std::make_unique<other_views>(std::move(below), std::move(make));
}

std::byte* arena::take(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  std::size_t first = 0;
  auto before = taken_.begin();
  while (before != taken_.end() && before->first - first < bytes) first = (before++)->end;
  if (bytes_ - first < bytes) return nullptr;
  taken_.insert(before, {first, first + bytes});
  return all_.get() + first;
}

void arena::give_back(std::byte* which) {
  const auto first = static_cast<std::size_t>(which - all_.get());
  std::erase_if(taken_, [first](const part& each) { return each.first == first; });
}

}  // namespace tandem::test
