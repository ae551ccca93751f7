#include "staging.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <new>
#include <tandem/detail/stream_word.hpp>
#include <tandem/log.hpp>

namespace tandem::c {
namespace {

constexpr std::size_t min_block_bytes = 8192;

std::size_t rounded_to_line(std::size_t bytes, std::size_t line) {
  return (bytes + line - 1) / line * line;
}

}  // namespace

staged_block::staged_block(accelerator& on, std::shared_ptr<const detail::staged_copies> by,
                           std::size_t bytes)
    : on_(on),
      by_(std::move(by)),
      bytes_(bytes),
      memory_(std::make_shared<pinned_buffer>(on, sizeof(words) + rounded_to_line(bytes, line))),
      words_(new (memory_->data()) words),
      address_of_words_(static_cast<std::byte*>(on.device_pointer(words_))) {}

staged_block::~staged_block() {
  if (detail::passes_soon([this] { return is_emptied(); })) return;
  log(log_level::warning, "streams",
      on_.text() + ": a stream still waits for an operation that has ended");
  detail::keep_for_ever(std::move(memory_));
}

bool staged_block::have_reached(words_of_copy which) const noexcept {
  return std::ranges::all_of(
      which, [this](std::uint32_t& each) { return detail::has_reached(each, number_); });
}

bool staged_block::is_emptied() const noexcept {
  return have_reached(emptied()) && detail::has_reached(words_->released, number_);
}

void* staged_block::address_of(const void* of_block) const noexcept {
  return address_of_words_ +
         (static_cast<const std::byte*>(of_block) - reinterpret_cast<const std::byte*>(words_));
}

void staged_block::queue_in(const const_view& from, bool is_in_place, accelerator::stream on) {
  std::byte* const data = memory_->data() + sizeof(words);
  from_ = mutable_view(data, from.bytes);
  into_ = mutable_view(is_in_place ? data : data + rounded_to_line(from.bytes, line), 0);
  has_out_ = false;
  ++number_;
  try {
    by_->launch({.to = address_of(from_.data),
                 .from = from.data,
                 .bytes = from.bytes,
                 .copied = address_of(&words_->filled),
                 .number = number_},
                on);
  } catch (...) {
    release();
    throw;
  }
}

void staged_block::queue_out(const mutable_view& into, accelerator::stream on) {
  into_.bytes = into.bytes;
  try {
    by_->launch({.to = into.data,
                 .from = address_of(into_.data),
                 .bytes = into.bytes,
                 .awaited = address_of(&words_->released),
                 .copied = address_of(&words_->emptied),
                 .number = number_},
                on);
    has_out_ = true;
  } catch (...) {
    release();
    throw;
  }
}

void staged_block::release() noexcept {
  std::atomic_ref(words_->released).store(number_, std::memory_order_release);
}

bool staging::is_possible() noexcept {
  std::call_once(made_, [this]() noexcept {
    try {
      copies_ = std::make_shared<const detail::staged_copies>(on_);
    } catch (const std::exception& why) {
      log(log_level::warning, "streams",
          on_.text() +
              ": no operation by way of pinned memory in the order of streams: " + why.what());
    }
  });
  return copies_ != nullptr;
}

bool staging::is_full() {
  const std::lock_guard lock(mutex_);
  return in_use_ >= max_blocks;
}

std::shared_ptr<staged_block> staging::take(std::size_t bytes) {
  const std::size_t rounded = std::bit_ceil(std::max(bytes, min_block_bytes));
  std::unique_ptr<staged_block> taken;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(idle_, [rounded](const auto& each) {
      return each->bytes() == rounded && each->is_emptied();
    });
    if (found != idle_.end()) {
      taken = std::move(*found);
      idle_.erase(found);
    }
    ++in_use_;
  }
  try {
    if (!taken) taken = std::make_unique<staged_block>(on_, copies_, rounded);
    return {taken.release(), [pool = shared_from_this()](staged_block* used) {
              pool->give_back(std::unique_ptr<staged_block>(used));
            }};
  } catch (...) {
    const std::lock_guard lock(mutex_);
    --in_use_;
    throw;
  }
}

void staging::give_back(std::unique_ptr<staged_block> which) noexcept {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(which));
  --in_use_;
}

}  // namespace tandem::c
