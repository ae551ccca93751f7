// Copies by a thread block: a part of the kernel source that is compiled at run time, behind
// slot_words.hpp and slot_device.hpp.
#pragma once

namespace tandem::detail {
namespace {

inline bool is_reached(std::uint32_t count, std::uint32_t value) {
  return static_cast<std::int32_t>(count - value) >= 0;
}

/// This thread of those of its block that work together.
struct thread_group {
  unsigned thread, threads;
  unsigned barrier = 0;  ///< of the block, for this group alone
};
inline thread_group whole_block() {
  return {threadIdx.x, blockDim.x};
}

/// That a thread has under way: 448 threads or more copy a slot in one pass.
constexpr unsigned units_at_once = 5;

template <bool IsSent, class Unit>
inline void copy_units(char* to, const char* from, std::uint64_t bytes, const thread_group& by) {
  const unsigned threads = by.threads;
  auto* const into = reinterpret_cast<Unit*>(to);
  const auto* const units = reinterpret_cast<const Unit*>(from);
  const auto count = static_cast<unsigned>(bytes / sizeof(Unit));
  for (unsigned i = by.thread; i < count; i += units_at_once * threads) {
    Unit each[units_at_once];
    for (unsigned k = 0; k < units_at_once; ++k) {
      const unsigned unit = i + k * threads;
      if (unit < count) each[k] = IsSent ? load_once(units + unit) : load_unit(units + unit);
    }
    for (unsigned k = 0; k < units_at_once; ++k) {
      const unsigned unit = i + k * threads;
      if (unit >= count) continue;
      if (IsSent) {
        into[unit] = each[k];
      } else {
        store_once(into + unit, each[k]);
      }
    }
  }
}

/// By all of these threads. @tparam IsSent  to a slot; else what others write is copied
template <bool IsSent = false>
inline void copy_piece(char* to, const char* from, std::uint64_t bytes, const thread_group& by) {
  const std::uint64_t alignment =
      reinterpret_cast<std::uint64_t>(to) | reinterpret_cast<std::uint64_t>(from);
  std::uint64_t copied = 0;
  if (alignment % sizeof(copy_unit) == 0) {
    copied = bytes / sizeof(copy_unit) * sizeof(copy_unit);
    copy_units<IsSent, copy_unit>(to, from, copied, by);
  } else if (alignment % sizeof(std::uint32_t) == 0) {
    copied = bytes / sizeof(std::uint32_t) * sizeof(std::uint32_t);
    copy_units<IsSent, std::uint32_t>(to, from, copied, by);
  }
  copy_units<IsSent, char>(to + copied, from + copied, bytes - copied, by);
}

}  // namespace
}  // namespace tandem::detail
