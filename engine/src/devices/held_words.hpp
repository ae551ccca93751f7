#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <tandem/device_watch.hpp>
#include <vector>

namespace tandem {

/// Words of pinned memory that streams wait for, each a counter that only grows: a word is given to
/// the next hold at once, though a stream may not have read yet that it was released. Streams say
/// in a word of their own how far they have read, for until then the memory must stay.
class stream_hold::words {
 public:
  explicit words(accelerator& of);
  /// @pre all are released.
  ~words();
  words(const words&) = delete;
  words& operator=(const words&) = delete;

  /// Has the stream wait for a word that nobody else has now; which.
  std::uint32_t take(accelerator::stream stream);
  void release(std::uint32_t which) noexcept;

 private:
  static constexpr std::size_t per_page = 512;
  struct pair {
    std::uint32_t released;
    std::uint32_t read;  ///< by the stream
  };
  using pages = std::vector<pinned_buffer>;

  pair& at(std::uint32_t which) const noexcept;
  void grow();
  static bool all_read(const pages& in) noexcept;
  static void free_later(pages what);

  std::mutex mutex_;
  accelerator& of_;
  pages pages_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tandem
