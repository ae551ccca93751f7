#include "streams/slot_relay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstddef>
#include <tandem/channel.hpp>
#include <tandem/detail/fence.hpp>
#include <utility>

namespace tandem::detail {
namespace {

/// Of a relay whose owner has left.
constexpr std::chrono::milliseconds linger_interval{1};

static_assert(offsetof(message_slot, head) + sizeof(slot_head) == offsetof(message_slot, data));

void store(std::uint32_t& word, std::uint32_t value) noexcept {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

}  // namespace

struct slot_relay::piece : operation {
  slot_relay* of = nullptr;
  unsigned block = 0, slot = 0;
  bool is_pending = false;
};

/// One direction.
struct slot_relay::lane {
  bool is_send = false;
  std::array<relay_window, slot_blocks> windows;
  std::array<piece_lengths, slot_blocks> lengths;
  std::array<std::array<piece, slots_per_block>, slot_blocks> pieces;
};

slot_relay::slot_relay(std::shared_ptr<group> over, int peer, std::uint16_t first_tag, memory where,
                       kernel_messages::relay_handlers what)
    : memory_watch(over->executor()),
      over_(std::move(over)),
      path_(over_->to(peer)),
      first_tag_(first_tag),
      where_(std::move(where)),
      on_change_(std::move(what.changed)),
      on_failure_(std::move(what.lost)),
      linger_timer_(over_->executor()),
      sends_(std::make_unique<lane>()),
      receives_(std::make_unique<lane>()) {
  sends_->is_send = true;
}

void slot_relay::expect(bool is_send, const slot_counts& launched) {
  {
    const std::lock_guard lock(mutex_);
    (is_send ? launched_sends_ : launched_receives_) = launched;
    if (is_ended_) return;
    if (!std::exchange(is_busy_, true) && on_change_) on_change_(true);
  }
  post_go_on();
}

void slot_relay::post_go_on() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_posted_, true)) return;
  }
  asio::post(over_->executor(), [self = shared_from_this()] { self->go_on(); });
}

void slot_relay::go_on() {
  {
    const std::lock_guard lock(mutex_);
    is_posted_ = false;
    for (unsigned block = 0; block < slot_blocks && !is_left_; ++block) {
      sends_->windows[block].expect(launched_sends_[block]);
      receives_->windows[block].expect(launched_receives_[block]);
    }
  }
  const std::shared_ptr<slot_relay> alive = shared_from_this();
  look();
  if (is_watching()) {
    start_watching();
  } else {
    become_idle();
  }
}

/// If all that was launched is through: kernels wait for it no more.
void slot_relay::become_idle() {
  const std::lock_guard lock(mutex_);
  bool is_through = true;
  for (unsigned block = 0; block < slot_blocks; ++block) {
    is_through = is_through && sends_->windows[block].ended() == launched_sends_[block];
    is_through = is_through && receives_->windows[block].ended() == launched_receives_[block];
  }
  is_ended_ = is_ended_ || is_left_ || is_failed_;
  if ((is_through || is_ended_) && std::exchange(is_busy_, false) && on_change_) on_change_(false);
}

bool slot_relay::is_watching() const noexcept {
  if (is_failed_) return false;
  for (const lane* const of : {sends_.get(), receives_.get()}) {
    for (const relay_window& each : of->windows) {
      if (each.is_waiting()) return true;
    }
  }
  return false;
}

std::uint32_t slot_relay::ready(const lane& of, unsigned block) const noexcept {
  return of.is_send ? load(where_.outbox->filled[block].value)
                    : load(where_.inbox->emptied[block].value) + slots_per_block;
}

bool slot_relay::look() {
  bool found = false;
  for (lane* const of : {receives_.get(), sends_.get()}) {
    for (unsigned block = 0; block < slot_blocks; ++block) {
      relay_window& window = of->windows[block];
      while (!is_failed_ && window.is_waiting()) {
        const std::optional<unsigned> slot = window.begin_next(ready(*of, block));
        if (!slot) break;
        begin(*of, block, *slot);
        found = true;
      }
    }
  }
  if (found) keep_or_release();
  return found;
}

void slot_relay::begin(lane& of, unsigned block, unsigned slot) {
  try {
    over_->throw_if_failed();
  } catch (const error& why) {
    return fail(why);
  }
  piece& made = of.pieces[block][slot];
  message_slot& at = (of.is_send ? where_.outbox : where_.inbox)->slots[block][slot];
  const std::size_t bytes = of.is_send ? of.lengths[block].next(at.head, block) : slot_bytes;
  made.of = this;
  made.block = block;
  made.slot = slot;
  made.what = of.is_send ? operation::kind::send : operation::kind::recv;
  made.at = operation::phase::idle;
  made.flow =
      over_->flow(group::flow_class::stream, static_cast<std::uint32_t>(first_tag_) + block);
  made.view = mutable_view(&at.head, sizeof at.head + bytes);
  made.deadline = operation::no_deadline;
  made.rewritten = true;
  made.result = {};
  made.failure.reset();
  made.bytes = made.total_bytes = 0;
  made.complete = [](operation& op) {
    auto& over = static_cast<piece&>(op);
    over.is_pending = false;
    --over.of->pending_;
    over.of->ended(over);
    over.of->keep_or_release();
  };
  made.destroy = [](operation& op) noexcept {
    slot_relay& from = *static_cast<piece&>(op).of;
    --from.pending_;
    from.is_failed_ = true;
    from.keep_or_release();
  };
  made.is_pending = !path_.on->start(made);
  if (made.is_pending) {
    ++pending_;
  } else {
    ended(made);
  }
}

/// May destroy this.
void slot_relay::keep_or_release() noexcept {
  if (pending_ == 0) {
    const auto last = std::exchange(self_, nullptr);
  } else if (!self_) {
    self_ = shared_from_this();
  }
}

/// Not while the channel is in the middle of something: the next pieces begin in the loop.
void slot_relay::ended(piece& which) {
  const bool is_send = which.what == operation::kind::send;
  if (is_failed_ || (is_left_ && !is_send)) return;
  if (which.result) {
    return fail(
        which.failure
            ? error(*which.failure)
            : error(which.result,
                    {.peer = path_.peer, .rail = {}, .phase = {}, .detail = {}, .advice = {}}));
  }
  lane& of = is_send ? *sends_ : *receives_;
  of.windows[which.block].end(which.slot);
  if (!take_ended(of, which.block)) return;
  if (of.windows[which.block].is_waiting()) return post_go_on();
  become_idle();
}

bool slot_relay::take_ended(lane& of, unsigned block) {
  relay_window& window = of.windows[block];
  bool found = false;
  while (const std::optional<unsigned> slot = window.take_ended()) {
    found = true;
    if (of.is_send) continue;
    const message_slot& at = where_.inbox->slots[block][*slot];
    const std::size_t arrived = of.pieces[block][*slot].bytes;
    const bool has_head = arrived >= sizeof at.head;
    if (has_head && arrived == sizeof at.head + of.lengths[block].next(at.head, block)) continue;
    fail(error(errc::protocol_violation,
               {.peer = path_.peer,
                .rail = {},
                .phase = {},
                .detail = fmt::format("a part of a message of kernels has {} bytes", arrived),
                .advice = "use the same version on all ranks"}));
    return false;
  }
  if (!found) return false;
  if (of.is_send) {
    store(where_.outbox->emptied[block].value, window.ended());
    store(where_.report->relayed[block], window.ended());
  } else {
    store(where_.inbox->filled[block].value, window.ended());
  }
  return true;
}

void slot_relay::fail(const error& why) {
  if (std::exchange(is_failed_, true)) return;
  become_idle();
  if (on_failure_) std::exchange(on_failure_, nullptr)(why);
}

void slot_relay::leave() noexcept {
  is_left_ = true;
  on_failure_ = nullptr;
  for (unsigned block = 0; block < slot_blocks; ++block) {
    sends_->windows[block].expect(load(where_.outbox->filled[block].value));  // less if aborted
    receives_->windows[block].expect_no_more();
  }
  become_idle();
  const std::shared_ptr<slot_relay> alive = shared_from_this();
  for (auto& block : receives_->pieces) {
    for (piece& each : block) {
      if (each.is_pending && !each.is_over()) path_.on->cancel(each);
    }
  }
  linger();
}

/// Kept by the loop, which may be destroyed before.
void slot_relay::linger() {
  const auto is_open = [](const relay_window& each) { return !each.is_through(); };
  if (is_failed_ || std::ranges::none_of(sends_->windows, is_open)) return;
  look();
  linger_timer_.expires_after(linger_interval);
  linger_timer_.async_wait([self = shared_from_this()](error_code) { self->linger(); });
}

}  // namespace tandem::detail
