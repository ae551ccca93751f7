#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tandem/accelerator.hpp>

namespace tandem {

/// Words of pinned memory that streams write to tell how far they are: one for each stream that is
/// watched at the same time, a counter that goes round.
///
/// Pinned memory must outlive what is queued to write it. Where that may not be over at the end,
/// the page stays behind, and is freed with a later one of the same process once it is.
class told_words {
 public:
  explicit told_words(accelerator& of);
  ~told_words();
  told_words(const told_words&) = delete;
  told_words& operator=(const told_words&) = delete;

  class word {
   public:
    /// Queues the next value; which. @par Errors thrown: `device_failed`; nothing is queued then.
    std::uint32_t write_next(accelerator& of, accelerator::stream on);
    bool has_come(std::uint32_t value) const noexcept;
    /// What follows on this stream waits for a value.
    void await(accelerator& of, accelerator::stream which, std::uint32_t value) const;

   private:
    friend class told_words;
    std::uint32_t* here_ = nullptr;
    std::uint32_t* wanted_ = nullptr;  // the last value that was queued
    void* there_ = nullptr;
  };
  /// Nothing where all are taken.
  std::optional<word> take() noexcept;

 private:
  struct page;
  struct left_behind;
  static void leave(std::unique_ptr<page> last) noexcept;

  std::unique_ptr<page> page_;
  std::size_t taken_ = 0;
};

}  // namespace tandem
