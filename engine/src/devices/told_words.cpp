#include "devices/told_words.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "devices/device_word.hpp"

namespace tandem {
namespace {

constexpr std::size_t line_bytes = 64;  // one flag a cache line: each has another writer
constexpr std::size_t words_per_page = 64;

}  // namespace

struct told_words::page {
  explicit page(accelerator& on) : of(&on), memory(on, line_bytes * words_per_page) {
    std::memset(memory.data(), 0, memory.size());
    there = static_cast<std::byte*>(on.reach(memory.data()));
  }

  std::uint32_t* at(std::size_t which) const noexcept {
    return reinterpret_cast<std::uint32_t*>(memory.data() + which * line_bytes);
  }
  bool is_over() const noexcept {
    for (std::size_t i = 0; i < words_per_page; ++i) {
      if (load(*at(i)) != wanted[i]) return false;
    }
    return true;
  }

  accelerator* of;
  pinned_buffer memory;
  std::byte* there = nullptr;  // address for streams
  std::array<std::uint32_t, words_per_page> wanted{};
};

/// Pages that streams may still write. Never destroyed: the driver may be unloaded first.
struct told_words::left_behind {
  std::mutex mutex;
  std::vector<std::unique_ptr<page>> pages;

  static left_behind& all() {
    static auto& only = *new left_behind;
    return only;
  }
};

void told_words::leave(std::unique_ptr<page> last) noexcept {
  left_behind& left = left_behind::all();
  const std::lock_guard lock(left.mutex);
  const accelerator* const of = last->of;
  if (!last->is_over()) left.pages.push_back(std::move(last));
  std::erase_if(left.pages, [of](const auto& each) { return each->of == of && each->is_over(); });
}

told_words::told_words(accelerator& of) : page_(std::make_unique<page>(of)) {}

told_words::~told_words() {
  leave(std::move(page_));
}

std::optional<told_words::word> told_words::take() noexcept {
  if (taken_ == words_per_page) return std::nullopt;
  word made;
  made.here_ = page_->at(taken_);
  made.wanted_ = &page_->wanted[taken_];
  made.there_ = page_->there + taken_ * line_bytes;
  ++taken_;
  return made;
}

std::uint32_t told_words::word::write_next(accelerator& of, accelerator::stream on) {
  of.write_value(on, there_, *wanted_ + 1);
  return ++*wanted_;
}

/// Compares modulo 2^32: the counter wraps around.
bool told_words::word::has_come(std::uint32_t value) const noexcept {
  return static_cast<std::int32_t>(load(*here_) - value) >= 0;
}

void told_words::word::await(accelerator& of, accelerator::stream which,
                             std::uint32_t value) const {
  of.await_value(which, there_, value);
}

}  // namespace tandem
