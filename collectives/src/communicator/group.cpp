#include "group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "call.hpp"
#include "communicator/levels.hpp"

namespace tandem::detail {
namespace {

constexpr std::uint16_t max_groups = 1 << 12;

std::vector<int> checked(std::vector<int> members, const fabric& over, std::uint16_t id) {
  const auto refuse = [id](const std::string& why) {
    throw error(errc::bad_input, fmt::format("communicator {}: {}", id, why));
  };
  if (id >= max_groups) refuse(fmt::format("its id exceeds {}", max_groups - 1));
  if (members.empty()) refuse("it has no members");
  std::vector<int> sorted = members;
  std::ranges::sort(sorted);
  if (sorted.front() < 0) refuse(fmt::format("{} is not a valid rank", sorted.front()));
  if (sorted.back() >= over.size()) {
    refuse(fmt::format("rank {} is not in a job of {} ranks", sorted.back(), over.size()));
  }
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) refuse(fmt::format("rank {} is listed twice", *twice));
  // Several communicators of all ranks of the job may exist: they share id 0.
  if (id != 0 && over.groups()->test(id)) refuse("its id is in use by another communicator");
  if (!std::ranges::binary_search(sorted, over.rank())) {
    refuse(fmt::format("this rank, {}, is not a member", over.rank()));
  }
  return members;
}

/// Starts the history with the members, so that ranks with different members fail at the first
/// message.
std::uint32_t first_history(const std::vector<int>& members, std::uint32_t id) noexcept {
  std::uint32_t history = id;
  for (const int member : members) history = extend_history(history, static_cast<unsigned>(member));
  return history;
}

backend_description only_channels(const fabric& over, std::size_t ranks) {
  if (ranks == 1) return {group_backend::alone, {}, "one rank"};
  return {group_backend::channels, {}, fmt::format("{} channels", over.kind())};
}

}  // namespace

group::group(fabric& over, const settings& options, std::vector<int> members, std::uint16_t id)
    : fabric_(over),
      executor_(over.get_executor()),
      owner_(executor_),
      members_(checked(std::move(members), over, id)),
      id_(id),
      ids_in_use_(over.groups()),
      options_(options),
      plan_(plan::standard(static_cast<int>(members_.size()), options)),
      calls_(first_history(members_, id)),
      watch_(std::make_shared<call_watch>(*this)),
      turn_(executor_),
      backend_(only_channels(over, members_.size())) {
  const auto me = std::ranges::find(members_, over.rank());
  rank_ = static_cast<int>(me - members_.begin());
  ids_in_use_->set(id_);
}

group::~group() {
  watch_->stop();
  if (id_ != 0) ids_in_use_->reset(id_);
}

operation::time_point group::deadline() const noexcept {
  if (!timeout_) return operation::time_point::max();
  if (*timeout_ >= operation::no_deadline.time_since_epoch()) return operation::no_deadline;
  return std::chrono::steady_clock::now() + *timeout_;
}

void group::adopt(plan agreed) {
  plan_ = std::move(agreed);
  has_adopted_ = true;
  levels_.reset();
}

void group::set_backend(std::unique_ptr<device_backend> made, backend_description what) noexcept {
  islands_ = std::move(made);
  backend_ = std::move(what);
}

facts group::facts_from(const group& parent) const {
  std::vector<int> ranks;
  for (const int member : members_) {
    const auto found = std::ranges::find(parent.members_, member);
    ranks.push_back(static_cast<int>(found - parent.members_.begin()));
  }
  return parent.plan_.known().of(ranks);
}

algorithm group::resolve_algorithm(collective what, algorithm how,
                                   std::size_t bytes) const noexcept {
  if (how != algorithm::board || (board_ && bytes <= board::max_bytes)) return how;
  return without_board(what);
}

levels& group::hosts() {
  if (!levels_) levels_ = std::make_unique<levels>(*this);
  return *levels_;
}

asio::awaitable<void> group::connect(int peer) {
  co_await fabric_.to(member(peer));
}

device_queue* group::queue_of_device(const const_view& like) {
  accelerator& on = accelerator_of(like);
  for (const auto& each : queues_) {
    if (&each->on() == &on) return each.get();
  }
  return queues_.emplace_back(std::make_unique<device_queue>(executor_, on)).get();
}

std::shared_ptr<call> group::acquire(std::size_t scratch_bytes, device_queue* queue) {
  if (free_.empty()) free_.push_back(std::make_shared<call>(executor_));
  const auto fits = [&](const auto& c) { return c->scratch_bytes(queue) >= scratch_bytes; };
  // Prefer the one that was used last: it is in the cache.
  if (!fits(free_.back())) {
    // Scratch memory in another place is kept: calls on the host and on a device alternate.
    const auto may_grow = [&](const auto& c) { return !c->has_scratch_elsewhere(queue); };
    auto found = std::find_if(free_.rbegin(), free_.rend(), fits);
    if (found == free_.rend()) found = std::find_if(free_.rbegin(), free_.rend(), may_grow);
    if (found == free_.rend()) {
      free_.push_back(std::make_shared<call>(executor_));
    } else {
      std::swap(*found, free_.back());
    }
  }
  free_.back()->reserve(scratch_bytes, queue);
  std::shared_ptr<call> taken = std::move(free_.back());
  free_.pop_back();
  return taken;
}

void group::release(std::shared_ptr<call> used) noexcept {
  try {
    free_.push_back(std::move(used));
  } catch (...) {  // out of memory: the next call allocates a new one
  }
}

namespace {

/// Counts a call that waits for its turn, for as long as this lives.
class waits_in {
 public:
  explicit waits_in(std::uint64_t& count) noexcept : count_(count) { ++count_; }
  waits_in(const waits_in&) = delete;
  waits_in& operator=(const waits_in&) = delete;
  ~waits_in() { --count_; }

 private:
  std::uint64_t& count_;
};

}  // namespace

asio::awaitable<void> group::queue() {
  const waits_in waiting(queued_);
  const std::uint64_t ticket = next_ticket_++;
  while (!failed_ && (turn_of_ != ticket || is_open(calls_.count()))) co_await turn_.wait();
  // The caller opens it before it suspends again.
  ++turn_of_;
  if (queued_ > 1) turn_.notify_all();
}

unsigned group::open_number(const call_record& what) {
  throw_if_failed();
  const auto number = static_cast<unsigned>(calls_.count() % calls_at_once);
  open_ |= std::uint64_t{1} << number;
  calls_.add(what.bits());
  watch_->begin();
  return number;
}

std::optional<std::uint64_t> group::oldest_open() const noexcept {
  const std::uint64_t count = calls_.count();
  for (std::uint64_t sequence = count > calls_at_once ? count - calls_at_once : 0; sequence < count;
       ++sequence) {
    if (is_open(sequence)) return sequence;
  }
  return std::nullopt;
}

std::string group::difference(std::uint64_t sequence, const call_signature& theirs,
                              int peer) const {
  const call_signature& mine = calls_.at(sequence);
  const std::string my_call = call_record(mine.call).text();
  if (mine.call != theirs.call) {
    return fmt::format("rank {} calls {}, rank {} {}", job_rank(), my_call, peer,
                       call_record(theirs.call).text());
  }
  return fmt::format("before this {}, ranks {} and {} made other calls, or their groups differ",
                     my_call, job_rank(), peer);
}

std::string group::missing_call() const {
  const std::optional<std::uint64_t> sequence = oldest_open();
  if (!sequence) return {};
  const call_record what(calls_.at(*sequence).call);
  std::vector<int> silent = watch_->silent_ranks(*sequence);
  if (!what.needs_all_ranks() || silent.empty()) return {};
  for (int& rank : silent) rank = member(rank);
  return fmt::format("rank{} {} {} not called {}", silent.size() == 1 ? "" : "s",
                     fmt::join(silent, ", "), silent.size() == 1 ? "has" : "have", what.name());
}

void group::open_pipeline() {
  throw_if_failed();
  if (pipeline_open_) {
    throw error(errc::bad_input, "a pipeline is already in progress on this communicator",
                "await it first");
  }
  pipeline_open_ = true;
}

void group::throw_if_failed() const {
  origin_.require_here("this communicator");
  owner_.require_here("a call on a communicator");
  if (failed_) throw error(*failed_);
  throw_if_closed();
  if (!ids_in_use_->has_fabric)
    throw error(errc::channel_closed, "the fabric of this communicator was destroyed",
                "keep it until the communicator's last call has ended");
}

void group::fail(const error& reason) noexcept {
  if (!failed_) failed_ = reason;
  if (queued_ != 0) turn_.notify_all();
  if (ids_in_use_->has_fabric) fabric_.fail(*failed_);
}

error group::closed() {
  return error(errc::channel_closed, "the communicator was destroyed during this call",
               "await every call before the communicator ends");
}

void group::close() noexcept {
  is_closed_ = true;
  if (open_ != 0 || pipeline_open_ || queued_ != 0) fail(closed());
  // Ending one may resume its coroutine, which may end others.
  while (open_message* const first = messages_) {
    first->leave();
    first->io_.cancel();
  }
}

}  // namespace tandem::detail
