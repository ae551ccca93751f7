#include "link/link_base.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <tandem/log.hpp>
#include <utility>

namespace tandem::transport {
namespace {

constexpr std::chrono::seconds stall_timeout{1};

}  // namespace

link_base::link_base(asio::any_io_executor executor, std::string_view component,
                     protocol::session& messages)
    : pending_owner(executor),
      executor_(std::move(executor)),
      owner_(executor_),
      component_(component),
      messages_(messages),
      timer_(executor_) {}

void link_base::count_messages() {
  const protocol::identity& who = messages_.who();
  messages_.set_meter({component_, who.rank, who.peer});
}

void link_base::cancel(operation& op) {
  messages_.cancel(op);
  operations_ended();
  complete_soon();
}

void link_base::fail(const error& reason, bool notify_peer) {
  if (std::exchange(is_over_, true)) return;
  const auto self = shared_from_this();
  stop(reason, notify_peer && !is_lost_);
  let_loop_end();
  complete_soon();
}

void link_base::complete_done() {
  while (operation* op = messages_.pop_done()) op->complete(*op);
}

void link_base::post_completion() {
  completion_posted_ = true;
  asio::post(executor_, [self = shared_from_this()] {
    self->require_loop();
    self->completion_posted_ = false;
    self->complete_done();
  });
}

void link_base::keep_loop_running() {
  work_ = asio::prefer(executor_, asio::execution::outstanding_work.tracked);
}

void link_base::let_loop_end() noexcept {
  timer_.cancel();
  work_ = {};
}

void link_base::peer_lost(const std::string& how, const std::string& advice, bool is_silent) {
  if (is_over_ || std::exchange(is_lost_, true)) return;
  const int peer = messages_.who().peer;
  const std::string who = peer >= 0 ? fmt::format("rank {}", peer) : "the peer";
  const error reason(errc::peer_lost, fmt::format("{} is gone: {}", who, how),
                     fmt::format("{}see the last output of {}", advice, who));
  log(log_level::info, component_, reason.what());
  const lost_handler& owner = is_silent && silent_ ? silent_ : lost_;
  if (owner && owner(reason)) return;
  fail(reason, false);
}

void link_base::peer_failed() {
  if (lost_) return peer_lost("it closed the channel after an error");
  fail(error(errc::peer_closed, "the peer closed the channel after an error",
             "see the peer's last output"),
       false);
}

void link_base::protocol_violation(const std::string& why) {
  const error reason(errc::protocol_violation, "the peer violated the protocol: " + why,
                     "is the peer another program, or another version of Tandem?");
  log(log_level::warning, component_, reason.what());
  fail(reason, false);
}

void link_base::arm_timer(operation::time_point when) {
  due_ = when;
  if (messages_.is_over() || when == operation::time_point::max()) return;
  timer_.expires_at(when);
  timer_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (cancelled || !self) return;
    self->require_loop();
    if (!self->messages_.is_over()) self->expire();
  });
}

void link_base::expire() {
  const auto now = std::chrono::steady_clock::now();
  auto found = messages_.expire(now);
  const std::optional<std::uint64_t> reached = found.stuck ? progress() : std::nullopt;
  if (reached && *reached == progress_when_late_) {
    fail(error(errc::timed_out, "the peer accepts no more data",
               "is the peer stopped, or the network cut?"),
         false);
  }
  // The current piece has to be completed; while it advances, the channel is alive.
  progress_when_late_ = reached.value_or(no_late_send);
  if (found.stuck) found.next = std::min(found.next, now + stall_timeout);
  arm_timer(found.next);
  operations_ended();
  complete_done();
}

void link_base::abandon() noexcept {
  const auto self = weak_from_this().lock();
  is_over_ = true;
  work_ = {};
  if (abandon_io()) abandon_operations();
}

void link_base::abandon_operations() noexcept {
  is_over_ = true;
  while (operation* op = messages_.pop_any()) {
    if (op->destroy != nullptr) op->destroy(*op);
  }
}

}  // namespace tandem::transport
