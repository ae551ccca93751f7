#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <tandem/accelerator.hpp>
#include <tandem/detail/staged_copies.hpp>
#include <vector>

namespace tandem::c {

/// Pinned memory in which a stream hands data over to the loop, and waits until it has data back.
/// All that the stream does is queued at once: the loop then needs no call of the driver.
class staged_block {
 public:
  staged_block(accelerator& on, std::shared_ptr<const detail::staged_copies> by, std::size_t bytes);
  /// Memory that a stream still uses is never freed.
  ~staged_block();
  staged_block(const staged_block&) = delete;
  staged_block& operator=(const staged_block&) = delete;

  std::size_t bytes() const noexcept { return bytes_; }
  /// Queues the copy of `from` into this block. @param is_in_place  what comes back replaces it
  /// @par Errors thrown: `device_failed`. @pre is_emptied
  void queue_in(const const_view& from, bool is_in_place, accelerator::stream on);
  /// Queues the wait for `release`, and the copy into `into`, which goes on after an error. Not
  /// called: nothing comes back.
  void queue_out(const mutable_view& into, accelerator::stream on);
  /// Whether something comes back.
  bool has_out() const noexcept { return has_out_; }
  /// The copy of `from`, and the place of what is copied into `into`.
  mutable_view from() const noexcept { return from_; }
  mutable_view into() const noexcept { return into_; }

  /// Lets the stream go on, once. Any thread.
  void release() noexcept;

  using words_of_copy = std::span<std::uint32_t>;
  /// All are at least `number` when `from` is copied.
  words_of_copy filled() const noexcept { return words_of(words_->filled, from_.bytes); }
  /// The same when streams have passed all.
  words_of_copy emptied() const noexcept {
    return has_out_ ? words_of(words_->emptied, into_.bytes) : filled();
  }
  std::uint32_t number() const noexcept { return number_; }
  /// Whether all of these are.
  bool have_reached(words_of_copy which) const noexcept;
  /// Whether it can be used again: streams have passed all, and it was released.
  bool is_emptied() const noexcept;

 private:
  static constexpr std::size_t line = 64;
  using words_by_block = std::array<std::uint32_t, detail::staged_copies::max_words>;
  struct words {
    alignas(line) words_by_block filled{};
    alignas(line) words_by_block emptied{};
    alignas(line) std::uint32_t released = 0;
  };

  static words_of_copy words_of(words_by_block& all, std::size_t bytes) noexcept {
    return words_of_copy(all).first(detail::staged_copies::words_of(bytes));
  }
  /// For the device. @param of_block  in this memory
  void* address_of(const void* of_block) const noexcept;

  accelerator& on_;
  const std::shared_ptr<const detail::staged_copies> by_;
  const std::size_t bytes_;
  std::shared_ptr<const pinned_buffer> memory_;
  words* words_ = nullptr;
  std::byte* address_of_words_ = nullptr;  ///< for the device
  std::uint32_t number_ = 0;
  bool has_out_ = false;
  mutable_view from_, into_;
};

/// The blocks of a device, which are used again and again. Any thread.
class staging : public std::enable_shared_from_this<staging> {
 public:
  /// In use at a time, unless one operation needs more.
  static constexpr int max_blocks = 256;

  explicit staging(accelerator& on) : on_(on) {}

  /// False, for ever: there are no kernels for it, as a log line says.
  /// @par Cost  of the first call: `staged_copies`.
  bool is_possible() noexcept;
  bool is_full();
  /// A block of at least so many bytes; it comes back when its last owner lets go of it.
  /// @par Cost  of the first of its size: an allocation of pinned memory.
  /// @par Errors thrown: `device_failed`.
  std::shared_ptr<staged_block> take(std::size_t bytes);

 private:
  void give_back(std::unique_ptr<staged_block> which) noexcept;

  accelerator& on_;
  std::once_flag made_;
  std::shared_ptr<const detail::staged_copies> copies_;  ///< null: not possible
  std::mutex mutex_;
  std::vector<std::unique_ptr<staged_block>> idle_;  ///< some with a stream that still uses them
  int in_use_ = 0;
};

}  // namespace tandem::c
