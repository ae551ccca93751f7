#include "group_of_ranks.hpp"

#include <tandem/parallel.hpp>
#include <utility>

#include "job_state.hpp"
#include "status.hpp"

namespace tandem::c {
namespace {

/// Half of what a communicator allows, so that ranks that are ahead find room for their calls.
constexpr int max_collectives_at_once = 32;

/// Rejected arguments change nothing.
bool ends_communicator(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const error& e) {
    return e.code() != errc::bad_input && e.code() != errc::unsupported_memory &&
           e.code() != errc::limit_exceeded;
  } catch (...) {
    return true;
  }
}

std::string text_of_ranks(const communicator& of) {
  std::vector<int> ranks;
  for (int r = 0; r < of.size(); ++r) ranks.push_back(of.job_rank(r));
  return (ranks.size() == 1 ? "rank " : "ranks ") + tandem::ranks_text(ranks);
}

}  // namespace

group_of_ranks::group_of_ranks(std::shared_ptr<job_state> job, std::unique_ptr<communicator> ranks,
                               stream_order order)
    : job_(std::move(job)),
      ranks_(std::move(ranks)),
      rank_(ranks_->rank()),
      size_(ranks_->size()),
      backend_text_(ranks_->backend().text),
      ranks_text_(text_of_ranks(*ranks_)),
      own_changed_(ranks_->get_executor()) {
  if (order != stream_order::none && size_ > 1) {
    library_ = std::make_shared<library_calls>(*this, order, job_->limits_of_streams());
  }
}

progress& group_of_ranks::loop() const noexcept {
  return job_->loop();
}

std::string group_of_ranks::describe() const {
  const std::string on_devices = library_ ? library_->text() : std::string();
  if (islands_) return islands_->backend().text + ", " + backend_text_;
  return on_devices.empty() ? backend_text_ : on_devices + ", " + backend_text_;
}

void group_of_ranks::submit(std::shared_ptr<operation_state> op, operation_body body) {
  loop().count_operations(+1);
  op->was_submitted();
  loop().submit([self = shared_from_this(), op = std::move(op), body = std::move(body)]() mutable {
    self->begin({std::move(op), std::move(body)});
  });
}

void group_of_ranks::begin(submitted what) {
  if (ended_by_) return what.op->finish(ended_by_);
  // Operations begin in the order of their calls, also where they wait for streams.
  const bool is_ordered =
      what.op->order == operation_state::ordering::collective || what.op->begins_after_stream();
  if (is_ordered) {
    waiting_.push_back(std::move(what));
    launch_waiting();
  } else {
    launch(std::move(what));
  }
}

void group_of_ranks::launch_waiting() {
  while (!waiting_.empty() && beginning_ == nullptr && !ended_by_ &&
         collectives_running_ < max_collectives_at_once &&
         !(is_in_islands_ && uses_islands(*waiting_.front().op))) {
    submitted next = std::move(waiting_.front());
    waiting_.pop_front();
    launch(std::move(next));
  }
}

void group_of_ranks::launch(submitted what) {
  if (what.op->order == operation_state::ordering::collective) ++collectives_running_;
  const auto which = running_.insert(running_.end(), std::move(what.op));
  std::function<void()> begun;
  if ((*which)->begins_after_stream()) {
    beginning_ = which->get();
    // It may have ended before this is called, and the next one be beginning.
    begun = [self = shared_from_this(), op = *which] {
      if (self->beginning_ != op.get()) return;
      self->beginning_ = nullptr;
      self->launch_waiting();
    };
  }
  const bool by_islands = uses_islands(**which);
  if (by_islands) is_in_islands_ = true;
  (*which)->start(by_islands ? *islands_ : *ranks_, std::move(what.body), std::move(begun),
                  [self = shared_from_this(), which] { self->ended(which); });
}

void group_of_ranks::ended(operation_list::iterator which) {
  const std::shared_ptr<operation_state> op = *which;
  running_.erase(which);
  if (beginning_ == op.get()) beginning_ = nullptr;  // cancelled before it ran
  if (op->order == operation_state::ordering::collective) {
    --collectives_running_;
    if (uses_islands(*op)) is_in_islands_ = false;
    if (op->failure() && ends_communicator(op->failure())) note_failure(op->failure());
  }
  launch_waiting();
}

void group_of_ranks::end(std::exception_ptr why) {
  if (ended_by_) return;
  ended_by_ = why;
  while (!waiting_.empty()) {
    const std::shared_ptr<operation_state> op = std::move(waiting_.front().op);
    waiting_.pop_front();
    op->finish(why);
  }
  if (library_) {
    library_->fail(as_error(why));
  }
  // A cancelled operation may end at once.
  const std::vector<std::shared_ptr<operation_state>> all(running_.begin(), running_.end());
  for (const std::shared_ptr<operation_state>& op : all) op->cancel();
}

std::optional<group_of_ranks::message> group_of_ranks::take_early_message(int from, int tag) {
  const auto found = early_messages_.find({from, tag});
  if (found == early_messages_.end()) return std::nullopt;
  message first = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) early_messages_.erase(found);
  return first;
}

void group_of_ranks::keep_early_message(int from, int tag, message text) {
  early_messages_[{from, tag}].push_back(std::move(text));
}

}  // namespace tandem::c
