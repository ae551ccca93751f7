#include <algorithm>
#include <array>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstring>
#include <functional>
#include <new>
#include <tandem/detail/deferred_calls.hpp>
#include <tandem/detail/stream_word.hpp>
#include <tandem/kernel_messages.hpp>
#include <tandem/log.hpp>
#include <utility>
#include <vector>

#include "reduce/device_source.hpp"
#include "streams/message_memory.hpp"
#include "streams/slot_launch.hpp"

namespace tandem {

using detail::slot_memory;
using detail::slot_report;

namespace {

/// What has to be 0 in a `slot_memory`.
constexpr std::size_t counters_bytes = offsetof(slot_memory, slots);

void fill_with_zeros(const buffer& what, std::size_t bytes, accelerator& on) {
  const device_stream fills(on);
  on.fill(what.data(), 0, bytes, fills.get());
  on.finish(fills.get());
}

}  // namespace

kernel_messages::report::report(accelerator& on)
    : memory(on, sizeof(slot_report)), words(new (memory.data()) slot_report) {}

kernel_messages::memory::memory(accelerator& on)
    : of(on),
      kernels(detail::stream_kernels::of(on)),
      progress(sizeof(detail::slot_progress), on.kind(), on.device()),
      report(std::make_shared<const kernel_messages::report>(on)) {
  fill_with_zeros(progress, progress.size(), on);
  end.progress = reinterpret_cast<detail::slot_progress*>(progress.data());
  end.report = static_cast<slot_report*>(on.device_pointer(report->words));
}

void kernel_messages::memory::leave() {
  if (relay) std::exchange(relay, nullptr)->leave();
  other.reset();
}

void kernel_messages::memory::make_slots() {
  slots = detail::slots_of_process::get().make(of);
  fill_with_zeros(*slots, counters_bytes, of);
  end.own = reinterpret_cast<slot_memory*>(slots->data());
}

detail::slot_relay::memory kernel_messages::memory::make_relay_slots() {
  struct both {
    both(accelerator& on, std::shared_ptr<const kernel_messages::report> words)
        : slots(on, 2 * sizeof(slot_memory)), report(std::move(words)) {
      for (std::size_t i : {0, 1}) {
        std::memset(slots.data() + i * sizeof(slot_memory), 0, counters_bytes);
      }
    }
    const pinned_buffer slots;
    const std::shared_ptr<const kernel_messages::report> report;
  };
  const auto made = std::make_shared<const both>(of, report);
  auto* const inbox = reinterpret_cast<slot_memory*>(made->slots.data());
  end.own = static_cast<slot_memory*>(of.device_pointer(inbox));
  end.other = end.own + 1;
  return {inbox, inbox + 1, report->words, made};
}

bool kernel_messages::memory::is_idle() const noexcept {
  for (unsigned block = 0; block < detail::slot_blocks; ++block) {
    if (!detail::has_reached(report->words->sent[block], end.sent[block])) return false;
    if (!detail::has_reached(report->words->received[block], end.received[block])) return false;
  }
  return true;
}

struct kernel_messages::end::place {
  std::shared_ptr<const report> by;
  bool is_send = false, is_relayed = false;
  unsigned blocks = 0;         ///< that carry it
  detail::slot_counts counts;  ///< of those
};

bool kernel_messages::end::has_passed() const noexcept {
  slot_report& report = *place_->by->words;
  const bool is_aborted = detail::load(report.is_aborted) != 0;
  if (detail::load(report.differs) != 0 && !is_aborted) return false;
  std::uint32_t* const sent = place_->is_relayed && !is_aborted ? report.relayed : report.sent;
  std::uint32_t* const words = place_->is_send ? sent : report.received;
  for (unsigned block = 0; block < place_->blocks; ++block) {
    if (!detail::has_reached(words[block], place_->counts[block])) return false;
  }
  return true;
}

kernel_messages::~kernel_messages() {
  if (!memory_) return;
  if (!memory_->is_idle()) abort();
  if (detail::passes_soon([this] { return memory_->is_idle(); })) {
    memory_->leave();
    detail::deferred_calls::of_process().destroy(std::move(memory_));
    return;
  }
  log(log_level::warning, "streams",
      memory_->of.text() + ": a kernel of messages is still busy a second after their end");
  detail::keep_for_ever(std::move(memory_));
}

bool kernel_messages::is_idle() const noexcept {
  return memory_->is_idle();
}

bool kernel_messages::is_relayed() const noexcept {
  return memory_->relay != nullptr;
}

const accelerator& kernel_messages::on() const noexcept {
  return memory_->of;
}

std::vector<kernel_messages::end> kernel_messages::launch(std::span<const message> what,
                                                          accelerator::stream on) {
  std::vector<end> ends;
  if (what.empty()) return ends;
  boost::container::small_vector<detail::slot_request, 8> requests;
  ends.reserve(what.size());
  for (const message& each : what) {
    requests.push_back({&each.between->memory_->end,
                        each.is_send,
                        static_cast<char*>(each.data.data),
                        {static_cast<std::uint32_t>(each.data.bytes), each.call}});
  }
  const memory& first = *what.front().between->memory_;
  const auto launch_work = [&](detail::slot_work& work) {
    for (const message& each : what) each.between->memory_->note_launch(each.is_send);
    const unsigned blocks = work.blocks * work.directions;
    const auto launch_by = [&](accelerator::kernel by, void* argument) {
      void* arguments[] = {argument};
      first.of.launch(by, blocks, detail::slot_threads, 0, on, arguments);
    };
    if (auto few = detail::as_short(work)) {
      launch_by(first.kernels->carry_few(), &*few);
    } else {
      launch_by(first.kernels->carry_messages(), &work);
    }
  };
  detail::launch_messages(requests, std::ref(launch_work));
  for (const message& each : what) {
    ends.push_back(each.between->end_of(each.is_send, each.data.bytes));
  }
  return ends;
}

/// Of a message that was launched, and of those before it that the same blocks carry.
kernel_messages::end kernel_messages::end_of(bool is_send, std::size_t bytes) const {
  const auto place = std::make_shared<end::place>();
  place->by = memory_->report;
  place->is_send = is_send;
  place->is_relayed = is_relayed();
  place->blocks = bytes > 0 ? detail::blocks_for(bytes) : detail::slot_blocks;
  std::copy_n(memory_->end.counts(is_send).begin(), place->blocks, place->counts.begin());
  end made;
  made.place_ = place;
  return made;
}

std::vector<kernel_messages::end> kernel_messages::launch_exchange(const exchange& what,
                                                                   accelerator::kernel by,
                                                                   accelerator::stream on) {
  const auto bytes = static_cast<std::uint32_t>(what.into.bytes);
  const bool sends = what.sent.data != nullptr;
  detail::slot_exchange work = detail::plan_exchange(memory_->end, {bytes, what.call}, sends);
  work.sent = static_cast<const char*>(what.sent.data);
  work.combined = static_cast<const char*>(what.combined.data);
  work.into = static_cast<char*>(what.into.data);
  if (sends) memory_->note_launch(true);
  memory_->note_launch(false);
  void* arguments[] = {&work};
  const bool are_paired = detail::pairs_exchanges(memory_->of.kind());
  const unsigned blocks = detail::blocks_for(bytes) * (are_paired ? 1 : 2);
  const unsigned threads = are_paired ? detail::paired_threads_for(bytes) : detail::slot_threads;
  memory_->of.launch(by, blocks, threads, 0, on, arguments);
  std::vector<end> ends{end_of(false, bytes)};
  if (sends) ends.push_back(end_of(true, bytes));
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
