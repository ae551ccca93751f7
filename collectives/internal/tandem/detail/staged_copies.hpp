#pragma once

#include <cstdint>
#include <memory>
#include <tandem/accelerator.hpp>

namespace tandem::detail {

class stream_kernels;

/// Copies between memory of one device and pinned memory by kernels, in the order of a stream, for
/// which the stream may have to wait. A kernel that waits holds up no other stream, as a stream
/// that waits for a word does those of its hardware queue; nor is a call of the driver needed for
/// the wait, the copy and the word behind it each.
/// @par Cost  A launch for each copy. A waiting one has up to 32 blocks of 512 threads.
/// @par Threads  Any.
class staged_copies {
 public:
  /// The words of a copy: each is set when a block has copied its part.
  static constexpr unsigned max_words = 32;
  /// How many of them a copy of so many bytes has.
  static unsigned words_of(std::size_t bytes) noexcept;

  /// @par Cost  of the first of an accelerator: the compilation of a kernel, which is cached.
  /// @par Errors thrown: `device_failed`: there is no compiler, or it or the driver fails.
  explicit staged_copies(accelerator& on);
  ~staged_copies();
  staged_copies(const staged_copies&) = delete;
  staged_copies& operator=(const staged_copies&) = delete;

  /// All are addresses as the device accesses them.
  struct copy {
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0;
    /// In pinned memory: the copy begins when it is at least `number`; null: at once.
    const void* awaited = nullptr;
    void* copied = nullptr;  ///< words in pinned memory, which are set to `number`
    std::uint32_t number = 0;
  };
  /// @par Errors thrown: `device_failed`.
  void launch(const copy& what, accelerator::stream on) const;

 private:
  accelerator& on_;
  const std::shared_ptr<const stream_kernels> kernels_;
};

}  // namespace tandem::detail
