#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace tandem::verbs {

/// 0 for an invalid value.
inline std::uint32_t bytes_of(ibv_mtu mtu) noexcept {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << static_cast<unsigned>(mtu) : 0;
}

/// The largest MTU of at most `bytes`, or the smallest one.
inline ibv_mtu mtu_of(std::uint32_t bytes) noexcept {
  int step = IBV_MTU_256;
  while (step < IBV_MTU_4096 && (128U << (step + 1)) <= bytes) ++step;
  return static_cast<ibv_mtu>(step);
}

}  // namespace tandem::verbs
