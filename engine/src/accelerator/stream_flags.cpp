#include "accelerator/stream_flags.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <tandem/detail/stream_word.hpp>
#include <vector>

namespace tandem {
namespace {

constexpr std::size_t cache_line_bytes = 64;  // one flag a cache line: each has another writer
constexpr std::size_t flags_per_page = 64;

}  // namespace

struct stream_flags::page {
  explicit page(accelerator& on) : of(&on), memory(on, cache_line_bytes * flags_per_page) {
    std::memset(memory.data(), 0, memory.size());
    device_address = static_cast<std::byte*>(on.device_pointer(memory.data()));
  }

  std::uint32_t* at(std::size_t which) const noexcept {
    return reinterpret_cast<std::uint32_t*>(memory.data() + which * cache_line_bytes);
  }
  bool is_quiescent() const noexcept {
    for (std::size_t i = 0; i < flags_per_page; ++i) {
      if (detail::load(*at(i)) != last_queued[i]) return false;
    }
    return true;
  }

  accelerator* of;
  pinned_buffer memory;
  std::byte* device_address = nullptr;  // address for streams
  std::array<std::uint32_t, flags_per_page> last_queued{};
};

/// Pages that streams may still write. Never destroyed: the driver may be unloaded first.
struct stream_flags::retired_pages {
  std::mutex mutex;
  std::vector<std::unique_ptr<page>> pages;

  static retired_pages& all() {
    static auto& only = *new retired_pages;
    return only;
  }
};

void stream_flags::retire(std::unique_ptr<page> last) noexcept {
  retired_pages& retired = retired_pages::all();
  const std::lock_guard lock(retired.mutex);
  const accelerator* const of = last->of;
  if (!last->is_quiescent()) retired.pages.push_back(std::move(last));
  std::erase_if(retired.pages,
                [of](const auto& each) { return each->of == of && each->is_quiescent(); });
}

stream_flags::stream_flags(accelerator& of) : page_(std::make_unique<page>(of)) {}

stream_flags::~stream_flags() {
  retire(std::move(page_));
}

std::optional<stream_flags::flag> stream_flags::take() noexcept {
  if (taken_ == flags_per_page) return std::nullopt;
  flag made;
  made.host_word_ = page_->at(taken_);
  made.last_queued_ = &page_->last_queued[taken_];
  made.device_address_ = page_->device_address + taken_ * cache_line_bytes;
  ++taken_;
  return made;
}

std::uint32_t stream_flags::flag::write_next(accelerator& of, accelerator::stream on) {
  of.write_value(on, device_address_, *last_queued_ + 1);
  return ++*last_queued_;
}

/// Compares modulo 2^32: the counter wraps around.
bool stream_flags::flag::has_reached(std::uint32_t value) const noexcept {
  return detail::has_reached(*host_word_, value);
}

void stream_flags::flag::await(accelerator& of, accelerator::stream which,
                               std::uint32_t value) const {
  of.await_value(which, device_address_, value);
}

}  // namespace tandem
