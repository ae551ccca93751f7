#include "kernel_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "group_of_ranks.hpp"
#include "job_state.hpp"

namespace tandem::c {

bool kernel_calls::takes(const kernel_messages* by, const library_call& what) const noexcept {
  const mutable_view& view = what.message;
  return by != nullptr && what.may_be_in_stream && what.side && view.bytes > 0 &&
         view.bytes <= max_bytes_ && &what.side->on() == &by->on();
}

void kernel_calls::watch(std::shared_ptr<kernel_messages> what) {
  const std::lock_guard lock(mutex_);
  watched_.push_back(std::move(what));
}

std::optional<error> kernel_calls::find_failure() const {
  const std::lock_guard lock(mutex_);
  for (const auto& each : watched_) {
    const auto found = each->find_mismatch();
    if (!found) continue;
    return error(errc::call_mismatch,
                 {.rank = group_.job()->rank(),
                  .peer = group_.ranks().job_rank(each->peer()),
                  .rail = {},
                  .phase = "recv",
                  .detail = fmt::format("the message has {} bytes, its receive {}",
                                        found->bytes_sent, found->bytes_expected),
                  .advice = "give both calls the same count and type, in the same order on both "
                            "ranks"});
  }
  return std::nullopt;
}

void kernel_calls::abort() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& each : watched_) each->abort();
}

void kernel_calls::launch(std::vector<started*> all) {
  const auto stream_of = [](const started* each) {
    return std::pair<const void*, const void*>(each->call.side.get(), each->on);
  };
  std::ranges::stable_sort(all, {}, stream_of);
  for (auto first = all.begin(); first != all.end();) {
    const auto last = std::find_if(first, all.end(), [&](const started* each) {
      return stream_of(each) != stream_of(*first);
    });
    device_side& side = *(*first)->call.side;
    const accelerator::stream on = (*first)->on;
    try {
      std::vector<kernel_messages::message> messages;
      for (const started* const each : std::span(first, last)) {
        if (each->op->beginning()) side.await(on, each->op->beginning());
        messages.push_back({each->by, each->call.is_send, each->call.message});
      }
      auto ends = kernel_messages::launch(messages, on);
      auto end = ends.begin();
      for (started* const each : std::span(first, last)) {
        each->end = side.carried(std::move(*end++), on);
      }
    } catch (...) {
      for (const started* const each : std::span(first, last)) {
        each->op->finish(std::current_exception());
      }
    }
    first = last;
  }
}

}  // namespace tandem::c
