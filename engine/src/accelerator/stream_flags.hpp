#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tandem/accelerator.hpp>

namespace tandem {

/// Flags in pinned memory by which streams report progress: one for each stream that is watched at
/// the same time, a counter modulo 2^32.
///
/// Pinned memory must outlive the writes that are queued to it. A page with writes pending at
/// destruction is retired, and freed with a later page of this process once they are done.
class stream_flags {
 public:
  explicit stream_flags(accelerator& of);
  ~stream_flags();
  stream_flags(const stream_flags&) = delete;
  stream_flags& operator=(const stream_flags&) = delete;

  class flag {
   public:
    /// Queues a write of the next value, and returns it.
    /// @par Errors thrown: `device_failed`; nothing is queued then.
    std::uint32_t write_next(accelerator& of, accelerator::stream on);
    bool has_reached(std::uint32_t value) const noexcept;
    /// Makes later work on `which` wait for a value.
    void await(accelerator& of, accelerator::stream which, std::uint32_t value) const;

   private:
    friend class stream_flags;
    std::uint32_t* host_word_ = nullptr;
    std::uint32_t* last_queued_ = nullptr;  // last value that was queued
    void* device_address_ = nullptr;
  };
  /// Empty where all flags of the page are taken.
  std::optional<flag> take() noexcept;

 private:
  struct page;
  struct retired_pages;
  static void retire(std::unique_ptr<page> last) noexcept;

  std::unique_ptr<page> page_;
  std::size_t taken_ = 0;
};

}  // namespace tandem
