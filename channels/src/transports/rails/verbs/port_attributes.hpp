#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <tandem/detail/ibverbs.hpp>
#include <vector>

#include "transports/rails/verbs/ports.hpp"

namespace tandem::verbs {

/// The size of a port's GID table as reported, limited to what any device has, so that a wrong
/// value of a driver does not cost memory.
std::size_t gid_table_size(const ibv_port_attr& of) noexcept;

/// The GIDs of all ports of an opened device, by index.
/// @param entries  size of the tables of all ports
/// @return 0, or an errno.
int read_gids(const detail::ibverbs& driver, ibv_context* of, std::size_t entries,
              std::vector<ibv_gid_entry>& into);

gid_entry entry_of(const ibv_gid_entry& from) noexcept;

/// Bytes of an MTU; 0 for an invalid value.
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
