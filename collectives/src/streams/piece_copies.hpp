// Copies by a thread block: a part of the kernel source that is compiled at run time, behind
// slot_words.hpp and slot_device.hpp.
#pragma once

namespace tandem::detail {
namespace {

inline bool is_reached(std::uint32_t count, std::uint32_t value) {
  return static_cast<std::int32_t>(count - value) >= 0;
}

template <class Unit>
inline void copy_units(char* to, const char* from, std::uint64_t bytes, unsigned threads) {
  constexpr unsigned at_once = 4;
  auto* const into = reinterpret_cast<Unit*>(to);
  const auto* const units = reinterpret_cast<const Unit*>(from);
  const auto count = static_cast<unsigned>(bytes / sizeof(Unit));
  for (unsigned i = threadIdx.x; i < count; i += at_once * threads) {
    Unit each[at_once];
    for (unsigned k = 0; k < at_once; ++k) {
      const unsigned unit = i + k * threads;
      if (unit < count) each[k] = load_unit(units + unit);
    }
    for (unsigned k = 0; k < at_once; ++k) {
      const unsigned unit = i + k * threads;
      if (unit < count) into[unit] = each[k];
    }
  }
}

/// By the first threads of the block.
inline void copy_piece(char* to, const char* from, std::uint64_t bytes, unsigned threads) {
  const std::uint64_t alignment =
      reinterpret_cast<std::uint64_t>(to) | reinterpret_cast<std::uint64_t>(from);
  std::uint64_t copied = 0;
  if (alignment % sizeof(copy_unit) == 0) {
    copied = bytes / sizeof(copy_unit) * sizeof(copy_unit);
    copy_units<copy_unit>(to, from, copied, threads);
  } else if (alignment % sizeof(std::uint32_t) == 0) {
    copied = bytes / sizeof(std::uint32_t) * sizeof(std::uint32_t);
    copy_units<std::uint32_t>(to, from, copied, threads);
  }
  copy_units<char>(to + copied, from + copied, bytes - copied, threads);
}

}  // namespace
}  // namespace tandem::detail
