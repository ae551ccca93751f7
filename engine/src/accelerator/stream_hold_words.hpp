#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <tandem/accelerator.hpp>
#include <vector>

namespace tandem {

/// Words of pinned memory that streams wait for. Each is a counter that only grows, so a word is
/// reused by the next hold at once, even before the previous stream has read its release. Each
/// stream acknowledges in a second word what it has read: until then the memory must stay.
class stream_hold::words {
 public:
  explicit words(accelerator& of);
  /// @pre all holds are released.
  ~words();
  words(const words&) = delete;
  words& operator=(const words&) = delete;

  /// Makes the stream wait for a free word; returns its index.
  std::uint32_t take(accelerator::stream stream);
  void release(std::uint32_t which) noexcept;

 private:
  static constexpr std::size_t per_page = 512;
  struct hold_slot {
    std::uint32_t released;
    std::uint32_t read;  ///< last value of `released` that the stream has read
  };
  using pages = std::vector<pinned_buffer>;

  hold_slot& at(std::uint32_t which) const noexcept;
  void grow();
  static bool all_read(const pages& in) noexcept;
  static void free_later(pages what);

  std::mutex mutex_;
  accelerator& of_;
  pages pages_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tandem
