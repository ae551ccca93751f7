#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <tandem/detail/stream_word.hpp>
#include <tandem/kernel_messages.hpp>
#include <tandem/log.hpp>
#include <utility>
#include <vector>

#include "streams/kernel_beginning.hpp"
#include "streams/messages_about_streams.hpp"
#include "streams/slot_launch.hpp"
#include "streams/stream_kernels.hpp"

namespace tandem {
namespace {

using detail::group;
using detail::slot_memory;
using detail::slot_report;

/// Until the other rank has opened an allocation.
constexpr std::chrono::seconds open_limit{2};
constexpr std::chrono::microseconds open_interval{100};

/// Behind the tags of stream_messages, in the same flow.
constexpr std::uint16_t first_tag = 8;

template <class Message>
asio::awaitable<Message> exchange_with(std::shared_ptr<group> over, int peer, Message mine,
                                       std::uint16_t tag) {
  co_await detail::post_about_streams(over, peer, mine, tag);
  co_return co_await detail::take_about_streams<Message>(over, peer, tag);
}

using detail::kernel_beginning;

kernel_beginning beginning_on(const accelerator& of) {
  return {.device = std::hash<std::string>{}(of.facts().uuid),
          .process = ::getpid(),
          .can = 1,
          .runs_processes_at_once = static_cast<std::uint8_t>(of.facts().runs_processes_at_once)};
}

/// Waits until `find` finds something.
template <class Find>
asio::awaitable<std::invoke_result_t<Find>> poll_for(asio::any_io_executor executor, Find find) {
  const auto limit = std::chrono::steady_clock::now() + open_limit;
  asio::steady_timer later(executor);
  for (;;) {
    auto found = find();
    if (found != std::invoke_result_t<Find>{} || std::chrono::steady_clock::now() >= limit) {
      co_return found;
    }
    later.expires_after(open_interval);
    co_await later.async_wait(asio::use_awaitable);
  }
}

/// Where the other rank is of this process, mapping its slots does not keep them, as it does
/// between processes: a kernel here may still write to them after that rank's end.
class slots_of_process {
 public:
  static slots_of_process& get() {
    static auto& one = *new slots_of_process;  // ranks may end behind static objects
    return one;
  }
  std::shared_ptr<const buffer> make(const accelerator& on) {
    auto made = std::make_shared<const buffer>(sizeof(slot_memory), on.kind(), on.device());
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const std::weak_ptr<const buffer>& each) { return each.expired(); });
    all_.push_back(made);
    return made;
  }
  /// Null: they are of another process.
  std::shared_ptr<const buffer> find(const void* at) {
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<const buffer>& each : all_) {
      if (std::shared_ptr<const buffer> of = each.lock(); of && of->data() == at) return of;
    }
    return nullptr;
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<const buffer>> all_;
};

}  // namespace

/// Pinned, and written by kernels.
struct kernel_messages::report {
  explicit report(accelerator& on)
      : memory(on, sizeof(slot_report)), words(new (memory.data()) slot_report) {}

  const pinned_buffer memory;
  slot_report* const words;
};

struct kernel_messages::memory {
  explicit memory(accelerator& on)
      : of(on),
        kernels(detail::stream_kernels::of(on)),
        slots(slots_of_process::get().make(on)),
        report(std::make_shared<const kernel_messages::report>(on)) {
    const device_stream fills(on);
    on.fill(slots->data(), 0, slots->size(), fills.get());
    on.finish(fills.get());
    end.own = reinterpret_cast<slot_memory*>(slots->data());
    end.report = static_cast<slot_report*>(on.device_pointer(report->words));
  }
  bool is_idle() const noexcept {
    for (unsigned block = 0; block < detail::slot_blocks; ++block) {
      if (!detail::has_reached(report->words->sent[block], end.sent[block])) return false;
      if (!detail::has_reached(report->words->received[block], end.received[block])) return false;
    }
    return true;
  }

  accelerator& of;
  const std::shared_ptr<const detail::stream_kernels> kernels;
  const std::shared_ptr<const buffer> slots;
  const std::shared_ptr<const kernel_messages::report> report;
  std::unique_ptr<const mapped_memory> other;
  std::shared_ptr<const buffer> other_slots;  ///< null: mapped from another process
  detail::slot_end end;
};

struct kernel_messages::end::place {
  std::shared_ptr<const report> by;
  bool is_send = false;
  detail::slot_counts counts{};
};

bool kernel_messages::end::has_passed() const noexcept {
  slot_report& report = *place_->by->words;
  if (detail::load(report.differs) != 0 && detail::load(report.is_aborted) == 0) return false;
  std::uint32_t* const words = place_->is_send ? report.sent : report.received;
  for (unsigned block = 0; block < detail::slot_blocks; ++block) {
    if (!detail::has_reached(words[block], place_->counts[block])) return false;
  }
  return true;
}

asio::awaitable<kernel_messages::made> kernel_messages::make(communicator& over, int peer,
                                                             accelerator& of, std::uint16_t which,
                                                             std::string why_not) {
  const std::shared_ptr<group> in = over.internals();
  const auto tag = static_cast<std::uint16_t>(first_tag + which);
  made outcome;
  outcome.why_not = std::move(why_not);
  std::shared_ptr<memory> mine;
  if (!outcome.why_not.empty()) {
    // The other rank is notified below.
  } else if (of.kind() != memory_kind::cuda) {
    outcome.why_not = "kernels carry messages between GPUs of NVIDIA only";
  } else {
    try {
      mine = std::make_shared<memory>(of);
    } catch (const error& why) {
      outcome.why_not = why.what();
    }
  }
  const auto agree = [&]() -> asio::awaitable<void> {
    kernel_beginning own;
    if (outcome.why_not.empty()) own = beginning_on(of);
    const kernel_beginning theirs = co_await exchange_with(in, peer, own, tag);
    if (own.can == 0) co_return;
    if (theirs.can == 0) {
      outcome.why_not = "the other rank cannot";
    } else if (own.takes_turns_with(theirs)) {
      outcome.why_not = "kernels of both ranks take turns on one GPU, which MPS would run at once";
      outcome.take_turns = true;
    }
  };
  co_await agree();
  if (!outcome.why_not.empty()) co_return outcome;
  channel& to = *in->to(peer).on;
  const const_view slots = mine->slots->view();
  const memory_location here =
      co_await poll_for(over.get_executor(), [&] { return to.locate_memory(slots); });
  const memory_location there = co_await exchange_with(in, peer, here, tag);
  if (here == memory_location{} || there == memory_location{}) {
    outcome.why_not = "one GPU cannot reach the memory of the other";
    co_return outcome;
  }
  mine->other =
      co_await poll_for(over.get_executor(), [&] { return to.map_memory(there, slots.bytes, of); });
  if (mine->other) {
    mine->end.other = static_cast<slot_memory*>(mine->other->view().data);
    mine->other_slots = slots_of_process::get().find(mine->end.other);
  } else {
    outcome.why_not = "the memory of the other GPU cannot be mapped";
  }
  co_await agree();
  if (!outcome.why_not.empty()) co_return outcome;
  outcome.messages.reset(new kernel_messages(peer));
  outcome.messages->memory_ = std::move(mine);
  co_return outcome;
}

kernel_messages::~kernel_messages() {
  if (!memory_) return;
  if (!memory_->is_idle()) abort();
  if (detail::passes_soon([this] { return memory_->is_idle(); })) return;
  log(log_level::warning, "streams",
      memory_->of.text() + ": a kernel of messages is still busy a second after their end");
  detail::keep_for_ever(std::move(memory_));
}

const accelerator& kernel_messages::on() const noexcept {
  return memory_->of;
}

std::vector<kernel_messages::end> kernel_messages::launch(std::span<const message> what,
                                                          accelerator::stream on) {
  std::vector<end> ends;
  if (what.empty()) return ends;
  std::vector<detail::slot_request> requests;
  requests.reserve(what.size());
  ends.reserve(what.size());
  for (const message& each : what) {
    requests.push_back({&each.between->memory_->end,
                        each.is_send,
                        static_cast<char*>(each.data.data),
                        {static_cast<std::uint32_t>(each.data.bytes), each.call}});
  }
  const memory& first = *what.front().between->memory_;
  const accelerator::kernel kernel = first.kernels->carry_messages();
  detail::launch_messages(requests, [&](detail::slot_work& work) {
    void* arguments[] = {&work};
    first.of.launch(kernel, work.blocks * work.directions, detail::slot_threads, 0, on, arguments);
  });
  for (const message& each : what) {
    const auto place = std::make_shared<end::place>();
    place->by = each.between->memory_->report;
    place->is_send = each.is_send;
    place->counts = each.between->memory_->end.counts(each.is_send);
    ends.emplace_back().place_ = place;
  }
  return ends;
}

std::optional<kernel_messages::mismatch> kernel_messages::find_mismatch() const noexcept {
  slot_report& report = *memory_->report->words;
  if (detail::load(report.differs) == 0) return std::nullopt;
  const detail::slot_head &sent = report.sent_head, &expected = report.expected_head;
  return mismatch{sent.bytes, expected.bytes, sent.call, expected.call};
}

void kernel_messages::abort() noexcept {
  std::atomic_ref(memory_->report->words->is_aborted).store(1, std::memory_order_release);
}

}  // namespace tandem
