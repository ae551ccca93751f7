#include "support/device_views.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <utility>

#include "support/pattern.hpp"

namespace tandem::test {
namespace {

class stand_in;
using stand_ins = std::list<std::unique_ptr<stand_in>>;

/// An operation of the channel below, in the place of a user's.
class stand_in : public operation {
 public:
  stand_in(operation& user, std::shared_ptr<stand_ins> in, cuda_double& gpus, int on,
           std::shared_ptr<arena> from)
      : all_(std::move(in)), user_(user), gpus_(gpus), from_(std::move(from)) {
    what = user.what;
    flow = user.flow;
    deadline = user.deadline;
    note = user.note;
    if (user.view.kind != memory_kind::host) {
      view = {user.view.data, user.view.bytes, user.view.kind, 99};
    } else if (on < 0) {
      view = user.view;
    } else {
      const bool is_real = user.view.bytes <= longest_view_bytes;
      if (is_real && from_) part_ = from_->take(user.view.bytes);
      if (part_ == nullptr) memory_ = buffer(is_real ? user.view.bytes : 1, memory_kind::cuda, on);
      is_real_ = is_real;
      view = {part_ != nullptr ? part_ : memory_.data(), user.view.bytes, memory_kind::cuda, on};
      if (is_real && view.bytes > 0) std::memcpy(bytes_there(), user.view.data, view.bytes);
    }
    complete = [](operation& op) {
      auto& self = static_cast<stand_in&>(op);
      operation& told = self.user_;
      self.hand_over();
      told.complete(told);
    };
    destroy = [](operation& op) noexcept {
      auto& self = static_cast<stand_in&>(op);
      operation& gone = self.user_;
      self.leave();
      if (gone.destroy != nullptr) gone.destroy(gone);
    };
  }

  ~stand_in() {
    if (part_ != nullptr) from_->give_back(part_);
  }

  bool is_of(const operation& user) const noexcept { return &user_ == &user; }
  /// What a user may ask while it is pending.
  void show() noexcept { user_.move_to(at); }
  /// It is over, and this object with it.
  void hand_over() {
    if (what == kind::recv && is_real_ && view.bytes > 0) {
      std::memcpy(user_.view.data, bytes_there(), view.bytes);
    }
    user_.result = result;
    user_.failure = failure;
    user_.bytes = bytes;
    user_.total_bytes = total_bytes;
    user_.peer_note = peer_note;
    user_.move_to(phase::done);
    leave();
  }

 private:
  void* bytes_there() { return gpus_.host(reinterpret_cast<cu::address>(view.data), view.bytes); }
  void leave() noexcept {
    const std::shared_ptr<stand_ins> in = all_;
    in->remove_if([this](const auto& each) { return each.get() == this; });
  }

  const std::shared_ptr<stand_ins> all_;
  operation& user_;
  cuda_double& gpus_;
  const std::shared_ptr<arena> from_;
  std::byte* part_ = nullptr;
  bool is_real_ = false;
  buffer memory_;
};

class device_views final : public channel {
 public:
  device_views(std::unique_ptr<channel> below, cuda_double& gpus, int device,
               std::shared_ptr<arena> from)
      : below_(std::move(below)),
        gpus_(gpus),
        device_(device),
        from_(std::move(from)),
        limits_(below_->limits()) {
    limits_.kinds.assign(1, memory_kind::host);
  }
  ~device_views() override {
    below_.reset();
    for (const auto& each : *pending_) each->show();
  }
  asio::any_io_executor get_executor() const noexcept override { return below_->get_executor(); }
  const channel_limits& limits() const noexcept override { return limits_; }
  channel_stats stats() const noexcept override { return below_->stats(); }
  void fail(const error& reason) noexcept override { below_->fail(reason); }

  bool start(operation& user) override {
    auto made = std::make_unique<stand_in>(user, pending_, gpus_, device_, from_);
    stand_in& op = *made;
    pending_->push_back(std::move(made));
    if (below_->start(op)) {
      op.hand_over();
      return true;
    }
    op.show();
    return false;
  }
  void cancel(operation& user) noexcept override {
    for (const auto& each : *pending_) {
      if (each->is_of(user)) return below_->cancel(*each);
    }
  }

 private:
  std::unique_ptr<channel> below_;
  cuda_double& gpus_;
  const int device_;
  const std::shared_ptr<arena> from_;
  channel_limits limits_;
  const std::shared_ptr<stand_ins> pending_ = std::make_shared<stand_ins>();
};

std::unique_ptr<cuda_double> gpus;

class give_back final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override { gpus.reset(); }
};

}  // namespace

std::unique_ptr<channel> with_device_views(std::unique_ptr<channel> below, cuda_double& of,
                                           int device, std::shared_ptr<arena> from) {
  return std::make_unique<device_views>(std::move(below), of, device, std::move(from));
}

std::byte* arena::take(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  std::size_t first = 0;
  auto before = taken_.begin();
  while (before != taken_.end() && before->first - first < bytes) first = (before++)->end;
  if (all_.size() - first < bytes) return nullptr;
  taken_.insert(before, {first, first + bytes});
  return all_.data() + first;
}

void arena::give_back(std::byte* which) {
  const auto first = static_cast<std::size_t>(which - all_.data());
  std::erase_if(taken_, [first](const part& each) { return each.first == first; });
}

cuda_double& gpus_of_this_test(const cuda_double::options& as) {
  static const bool is_listening = [] {
    testing::UnitTest::GetInstance()->listeners().Append(new give_back);  // which owns it
    return true;
  }();
  static_cast<void>(is_listening);
  if (!gpus) gpus = std::make_unique<cuda_double>(as);
  return *gpus;
}

void write_pattern(cuda_double& on, const buffer& where, std::size_t bytes, std::uint64_t seed) {
  const std::vector<std::byte> made = pattern(bytes, seed);
  if (bytes > 0) std::memcpy(on.host(where.data(), bytes), made.data(), bytes);
}

void expect_pattern(cuda_double& on, const buffer& where, std::size_t bytes, std::uint64_t seed) {
  if (bytes == 0) return;
  const std::span<const std::byte> there(on.host(where.data(), bytes), bytes);
  EXPECT_EQ(first_wrong(there, seed), std::nullopt) << bytes << " bytes";
}

awaitable<void> expect_waiting(background& part) {
  co_await turns(20);
  EXPECT_FALSE(part.is_over()) << "told while the copy engine may still touch its view";
}

}  // namespace tandem::test
