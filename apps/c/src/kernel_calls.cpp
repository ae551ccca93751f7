#include "kernel_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/channels.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "group_of_ranks.hpp"
#include "job_state.hpp"

namespace tandem::c {
namespace {

/// For collectives; longer ones go on part by part.
constexpr std::size_t max_scratch_bytes = std::size_t{16} << 20;
/// Up to which kernels carry messages sooner than copy engines (two H200, bench/RESULTS.md).
constexpr std::size_t max_message_bytes = std::size_t{8} << 20;
/// Of more than two ranks, whose kernels combine apart. Not measured on GPUs.
constexpr std::size_t max_bytes_of_several = std::size_t{8} << 20;

}  // namespace

/// GPUs that reach each other have copy engines for the longer ones.
std::size_t kernel_calls::max_bytes_by(const kernel_messages& which) const noexcept {
  return which.is_relayed() ? max_bytes_.relayed : std::min(max_bytes_.direct, max_message_bytes);
}

std::size_t kernel_calls::max_bytes_by(const kernel_collectives& which) const noexcept {
  if (which.is_relayed()) return max_bytes_.relayed;
  const bool are_two = group_.size() == 2;
  return are_two ? max_bytes_.direct : std::min(max_bytes_.direct, max_bytes_of_several);
}

namespace {

std::string text_of(std::size_t max_bytes, bool is_relayed) {
  return fmt::format(", up to {} by kernels{}", format_bytes(max_bytes),
                     is_relayed ? " whose data are relayed" : "");
}

}  // namespace

kernel_path kernel_calls::path() const noexcept {
  if (max_bytes_.relayed == 0) return kernel_path::direct;
  return max_bytes_.direct == 0 ? kernel_path::relayed : kernel_path::either;
}

bool kernel_calls::takes(const carriers& by, const library_call& what) const noexcept {
  if (!what.may_be_by_kernels || !what.side) return false;
  const auto are_on_its_device = [&](const auto& with) {
    return with && &with->on() == &what.side->on();
  };
  const auto fits = [](std::size_t bytes, std::size_t most) { return bytes > 0 && bytes <= most; };
  if (are_on_its_device(by.messages) && fits(what.message.bytes, max_bytes_by(*by.messages))) {
    return what.may_be_in_stream || by.messages->is_relayed();
  }
  return are_on_its_device(by.collectives) &&
         fits(what.data.bytes, max_bytes_by(*by.collectives)) &&
         by.collectives->takes(what.by_kernels);
}

asio::awaitable<std::shared_ptr<kernel_messages>> kernel_calls::make_messages(
    int peer, accelerator& on, bool may_reach, std::string& text,
    kernel_messages::relay_handlers what) {
  kernel_messages::made made;
  made.why_not = "one GPU cannot reach the memory of the other";
  if (may_reach && max_bytes_.direct > 0) {
    made = co_await kernel_messages::make(group_.ranks(), peer, on);
  }
  if (!made.messages && !made.take_turns && max_bytes_.relayed > 0) {
    made = co_await kernel_messages::make_relayed(group_.ranks(), peer, on, std::move(what));
  }
  if (made.take_turns) take_turns_ = true;
  if (made.messages) {
    watch(made.messages);
    text += text_of(max_bytes_by(*made.messages), made.messages->is_relayed());
  } else if (are_possible()) {
    log(log_level::info, "groups",
        fmt::format("messages with rank {} not by kernels: {}", peer, made.why_not));
  }
  co_return std::move(made.messages);
}

asio::awaitable<std::shared_ptr<kernel_collectives>> kernel_calls::make_collectives(
    accelerator& on, std::string& text, kernel_messages::relay_handlers what) {
  if (!are_possible()) co_return nullptr;
  const auto ranks = static_cast<std::size_t>(group_.size());
  const std::size_t max_bytes = std::max(max_bytes_.direct, max_bytes_.relayed);
  const std::size_t scratch_bytes = std::min(max_bytes, max_scratch_bytes / ranks) * ranks;
  kernel_collectives::made made =
      co_await kernel_collectives::make(group_.ranks(), on, scratch_bytes, std::move(what), path());
  if (made.take_turns) take_turns_ = true;
  if (made.collectives) {
    for (const auto& each : made.collectives->messages()) watch(each);
    text += text_of(max_bytes_by(*made.collectives), made.collectives->is_relayed());
  } else {
    log(log_level::info, "groups",
        fmt::format("collectives of {} not by kernels: {}", group_.ranks_text(), made.why_not));
  }
  co_return std::move(made.collectives);
}

void kernel_calls::watch(const std::shared_ptr<kernel_messages>& what) {
  const std::lock_guard lock(mutex_);
  watched_.push_back(what);
}

std::optional<error> kernel_calls::find_failure() const {
  const std::lock_guard lock(mutex_);
  for (const auto& each : watched_) {
    const auto found = each->find_mismatch();
    if (!found) continue;
    const int peer = group_.ranks().job_rank(each->peer());
    const auto side = [](std::uint32_t call, std::size_t bytes) {
      return fmt::format("{} ({} bytes)", kernel_collectives::describe(call), bytes);
    };
    const bool is_message = found->call_sent == 0 && found->call_expected == 0;
    std::string detail = is_message
                             ? fmt::format("the message has {} bytes, its receive {}",
                                           found->bytes_sent, found->bytes_expected)
                             : fmt::format("rank {} sends for {}, this rank receives for {}", peer,
                                           side(found->call_sent, found->bytes_sent),
                                           side(found->call_expected, found->bytes_expected));
    std::string advice = is_message
                             ? "give both calls the same count and type, in the same order on both "
                               "ranks"
                             : "make the same calls with the same arguments on all ranks, in the "
                               "same order";
    return error(errc::call_mismatch, {.rank = group_.job()->rank(),
                                       .peer = peer,
                                       .rail = {},
                                       .phase = is_message ? "recv" : "collective",
                                       .detail = std::move(detail),
                                       .advice = std::move(advice)});
  }
  return std::nullopt;
}

void kernel_calls::abort() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& each : watched_) each->abort();
}

kernel_calls::started kernel_calls::make_started(std::shared_ptr<operation_state> op,
                                                 const library_call& call, const carriers& by,
                                                 accelerator::stream on) const {
  started made{this, std::move(op), call.name, call.side, on, call.is_in_stream};
  if (by.messages) {
    made.messages.push_back({by.messages, call.is_send, call.message});
  } else {
    made.collectives = by.collectives;
    made.collective = call.by_kernels;
  }
  return made;
}

/// Whether another rank expects both in this order.
bool kernel_calls::on_stream::holds_back(const started& later) const noexcept {
  const auto is_of_one_lane = [](const message& a, const message& b) {
    return a.by == b.by && a.is_send == b.is_send;
  };
  return std::ranges::any_of(calls, [&](const started* each) {
    if (later.collectives) return each->collectives == later.collectives;
    return std::ranges::any_of(each->messages, [&](const message& first) {
      return std::ranges::any_of(
          later.messages, [&](const message& second) { return is_of_one_lane(first, second); });
    });
  });
}

void kernel_calls::join_streams(started_together& all) {
  if (all.size() < 2) return;
  struct first_stream {
    const kernel_calls* of;
    accelerator::stream on;
  };
  boost::container::small_vector<first_stream, 4> firsts;
  const auto first_of = [&firsts](const started& each) {
    const auto found = std::ranges::find(firsts, each.of, &first_stream::of);
    return found != firsts.end() ? found->on : firsts.emplace_back(each.of, each.on).on;
  };
  const auto fails_to_join = [&first_of](started* each) {
    if (!each->is_in_stream) return false;
    const accelerator::stream first = first_of(*each);
    if (first == each->on) return false;
    try {
      device_side& side = *each->side;
      side.await(first, side.mark(each->on));
      each->on = first;
      return false;
    } catch (...) {
      each->op->finish(std::current_exception());
      return true;
    }
  };
  all.erase(std::remove_if(all.begin(), all.end(), fails_to_join), all.end());
}

void kernel_calls::launch(started_together& all) {
  join_streams(all);
  boost::container::small_vector<on_stream, 4> launches;
  for (started* const each : all) {
    device_side* const side = each->side.get();
    on_stream* with = nullptr;
    for (on_stream& launch : launches) {
      if (launch.side == side && launch.on == each->on) {
        with = &launch;
      } else if (launch.holds_back(*each)) {
        with = nullptr;
      }
    }
    if (with == nullptr) with = &launches.emplace_back(on_stream{side, each->on, {}});
    with->calls.push_back(each);
  }
  for (const on_stream& each : launches) {
    try {
      launch(each);
    } catch (...) {
      for (started* const call : each.calls) {
        call->end = nullptr;
        call->op->finish(std::current_exception());
      }
    }
  }
}

void kernel_calls::launch(const on_stream& what) {
  device_side& side = *what.side;
  boost::container::small_vector<kernel_messages::message, 8> messages;
  for (const started* const each : what.calls) {
    if (each->op->beginning()) side.await(what.on, each->op->beginning());
    for (const message& one : each->messages) {
      messages.push_back({one.by.get(), one.is_send, one.data});
    }
  }
  auto ends = kernel_messages::launch(messages, what.on);
  auto end = ends.begin();
  for (started* const each : what.calls) {
    if (!each->collectives) {
      const std::span own(end, each->messages.size());
      each->end = side.carried(own, what.on, !each->is_in_stream);
      end += static_cast<std::ptrdiff_t>(own.size());
    } else {
      auto launched = each->collectives->launch(each->collective, what.on);
      each->end = launched.is_complete_then
                      ? side.carried(launched.ends, what.on, !each->is_in_stream)
                      : side.behind(launched.ends, what.on);
    }
  }
}

}  // namespace tandem::c
