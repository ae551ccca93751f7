#include <fmt/format.h>

#include <cstring>
#include <tandem/detail/cuda.hpp>
#include <tandem/detail/fence.hpp>
#include <utility>

#include "accelerator/stream_hold_words.hpp"

namespace tandem {

stream_hold::words::words(accelerator& of) : of_(of) {
  if (!of.facts().has_stream_memory_ops) {
    throw error(errc::unsupported_memory,
                fmt::format("streams of {} cannot wait for a value in memory", of.text()),
                "wait for the operation before queueing work that needs its result");
  }
  free_later({});
}

stream_hold::words::~words() {
  if (!all_read(pages_)) free_later(std::move(pages_));
}

bool stream_hold::words::all_read(const pages& in) noexcept {
  for (const pinned_buffer& page : in) {
    auto* const slots = reinterpret_cast<hold_slot*>(page.data());
    for (std::size_t i = 0; i < per_page; ++i) {
      if (detail::load(slots[i].read) != detail::load(slots[i].released)) return false;
    }
  }
  return true;
}

/// Frees pages that streams have read completely; keeps the others for a later call. Pages of a
/// driver that was replaced are never freed.
void stream_hold::words::free_later(pages what) {
  struct retired_entry {
    pages held;
    unsigned driver;
  };
  struct list {
    std::mutex mutex;
    std::vector<retired_entry> all;
  };
  static list& retired = *new list;
  const unsigned driver = detail::cuda_replacements();
  const std::lock_guard lock(retired.mutex);
  if (!what.empty()) retired.all.push_back({std::move(what), driver});
  std::erase_if(retired.all, [driver](const retired_entry& each) {
    return each.driver == driver && all_read(each.held);
  });
}

stream_hold::words::hold_slot& stream_hold::words::at(std::uint32_t which) const noexcept {
  return reinterpret_cast<hold_slot*>(pages_[which / per_page].data())[which % per_page];
}

void stream_hold::words::grow() {
  pinned_buffer page(of_, per_page * sizeof(hold_slot));
  std::memset(page.data(), 0, page.size());
  const auto first = static_cast<std::uint32_t>(pages_.size() * per_page);
  pages_.push_back(std::move(page));
  for (std::uint32_t i = 0; i < per_page; ++i) free_.push_back(first + i);
}

std::uint32_t stream_hold::words::take(accelerator::stream stream) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) grow();
  const std::uint32_t which = free_.back();
  hold_slot& word = at(which);
  const std::uint32_t value = word.released + 1;
  void* const read = of_.device_pointer(&word.read);
  of_.await_value(stream, of_.device_pointer(&word.released), value);
  free_.pop_back();
  try {
    of_.write_value(stream, read, value);
  } catch (...) {
    // Without the acknowledgement it is unknown when the stream has read it: never reused.
    std::atomic_ref(word.released).store(value, std::memory_order_release);
    throw;
  }
  return which;
}

void stream_hold::words::release(std::uint32_t which) noexcept {
  const std::lock_guard lock(mutex_);
  const std::atomic_ref<std::uint32_t> word(at(which).released);
  word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  free_.push_back(which);
}

stream_hold& stream_hold::operator=(stream_hold&& from) noexcept {
  if (this == &from) return *this;
  release();
  of_ = std::exchange(from.of_, nullptr);
  which_ = from.which_;
  return *this;
}

void stream_hold::release() noexcept {
  if (const std::shared_ptr<words> of = std::exchange(of_, nullptr)) of->release(which_);
}

}  // namespace tandem
