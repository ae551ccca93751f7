#include "transports/shm/shared_board.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <sstream>
#include <utility>

#include "transports/shm/mesh.hpp"

namespace tandem::shm {
namespace {

std::string text_of(const shared_pages::location& where) {
  return fmt::format("{} {} {}", where.process, where.descriptor, where.inode);
}

/// The text comes from a rank that has proven the job secret, and is validated nevertheless.
shared_pages::location location_of(const std::string& text, std::size_t bytes) {
  std::istringstream from(text);
  shared_pages::location where;
  where.bytes = bytes;
  if (!(from >> where.process >> where.descriptor >> where.inode)) {
    throw error(errc::bad_input,
                fmt::format("'{:.40}' is not the location of a shared board", text));
  }
  return where;
}

}  // namespace

std::shared_ptr<shared_board> shared_board::make(const std::shared_ptr<mesh>& over,
                                                 std::span<const int> members,
                                                 std::string& location, const settings& options) {
  const std::size_t bytes = bytes_for(static_cast<int>(members.size()));
  std::unique_ptr<shared_pages> pages;
  if (location.empty()) {
    pages = std::make_unique<shared_pages>("tandem-board", bytes);
    location = text_of(pages->where());
  } else {
    pages = std::make_unique<shared_pages>(location_of(location, bytes));
  }
  const auto me = std::ranges::find(members, over->rank());
  // Not `make_shared`: the constructor is private.
  return std::shared_ptr<shared_board>(new shared_board(
      over, over->get_executor(), std::move(pages), {members.begin(), members.end()},
      static_cast<int>(me - members.begin()), options));
}

shared_board::shared_board(std::weak_ptr<mesh> over, const asio::any_io_executor& executor,
                           std::unique_ptr<shared_pages> pages, std::vector<int> members, int rank,
                           const settings& options)
    : board(pages->data(), rank, static_cast<int>(members.size())),
      pollable(executor, poll_cost::memory_read),
      pending_owner(executor),
      over_(std::move(over)),
      executor_(executor),
      pages_(std::move(pages)),
      members_(std::move(members)),
      timeout_(options.operation_timeout),
      timer_(executor) {}

bool shared_board::spin_wait(waiter& w) noexcept {
  if (!loop().may_spin() || !spin_wait_policy_.may_spin()) return false;
  for (int polls = 0; polls < polls_per_spin_wait; ++polls) {
    if (w.poll()) return spin_wait_policy_.record_hit();
  }
  return spin_wait_policy_.record_miss();
}

void shared_board::wait(waiter& w, clock::time_point due) {
  waiting_.push_back({&w, due == clock::time_point::max() ? clock::now() + timeout_ : due});
  if (!timer_runs_ || waiting_.back().due < timer_.expiry()) arm_timer(waiting_.back().due);
  if (failed_) return fail_waiters();
  is_armed_ = false;  // for the others only
  if (!loop().is_polling()) arm();
}

void shared_board::cancel_wait(waiter& w) noexcept {
  if (waiting_.empty()) return;
  std::erase_if(waiting_, [&w](const entry& each) { return each.who == &w; });
}

/// A resumed waiter may wait again or destroy the owner of this board.
bool shared_board::poll_waiters() {
  if (waiting_.empty()) return false;
  const auto self = shared_from_this();
  bool found = false;
  for (std::size_t i = 0; i < waiting_.size();) {
    waiter& w = *waiting_[i].who;
    if (!w.poll()) {
      ++i;
      continue;
    }
    found = true;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    w.complete(nullptr);
  }
  return found;
}

bool shared_board::can_progress() const noexcept {
  return std::ranges::any_of(waiting_, [](const entry& each) { return each.who->poll(); });
}

bool shared_board::poll() {
  flush_wakeups();
  if (is_armed_) {
    is_armed_ = false;
    clear_blocked();
  }
  return poll_waiters();
}

void shared_board::arm() {
  flush_wakeups();
  if (is_armed_ || waiting_.empty() || failed_) return;
  is_armed_ = true;
  set_blocked(waiting_.size() == 1 ? waiting_.front().who->missing() : std::nullopt);
  if (can_progress()) poll_later();
}

void shared_board::poll_later() {
  if (std::exchange(poll_posted_, true)) return;
  asio::post(executor_, [self = shared_from_this()] {
    self->poll_posted_ = false;
    self->wake();
  });
}

void shared_board::wake() {
  const auto self = shared_from_this();
  is_armed_ = false;
  clear_blocked();
  poll_waiters();
  if (!loop().is_polling()) arm();
}

void shared_board::ring_doorbell(int of_rank) noexcept {
  if (of_rank == rank()) return poll_later();
  if (const auto by = over_.lock()) by->ring_doorbell(members_[static_cast<std::size_t>(of_rank)]);
}

void shared_board::fail(const error& reason) {
  if (failed_) return;
  failed_ = std::make_shared<error>(reason);
  timer_.cancel();
  fail_waiters();
}

/// Calls complete on the executor, never inside the call that made them fail.
void shared_board::fail_waiters() {
  if (waiting_.empty()) return;
  asio::post(executor_, [self = shared_from_this()] {
    while (!self->waiting_.empty()) {
      waiter& w = *self->waiting_.back().who;
      self->waiting_.pop_back();
      w.complete(self->failed_);
    }
  });
}

void shared_board::arm_timer(clock::time_point when) {
  timer_runs_ = !failed_;
  if (failed_) return;
  timer_.expires_at(when);
  timer_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (cancelled || !self || self->failed_) return;
    self->timer_runs_ = false;
    self->expire();
  });
}

void shared_board::expire() {
  const auto now = clock::now();
  while (!waiting_.empty()) {
    const auto first = std::ranges::min_element(waiting_, {}, &entry::due);
    if (first->due > now) return arm_timer(first->due);
    waiter& w = *first->who;
    waiting_.erase(first);
    w.complete(std::make_shared<error>(
        errc::timed_out,
        error_context{
            .peer = members_[static_cast<std::size_t>(w.missing_rank())],
            .rail = "shm board",
            .phase = {},
            .detail = {},
            .advice = "is the peer still working? raise --operation-timeout-s if it is"}));
  }
}

void shared_board::abandon() noexcept {
  const auto self = weak_from_this().lock();
  while (!waiting_.empty()) {
    waiter& w = *waiting_.back().who;
    waiting_.pop_back();
    w.abandon();
  }
}

}  // namespace tandem::shm
