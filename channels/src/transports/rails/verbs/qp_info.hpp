#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "transports/rails/verbs/credits.hpp"

namespace tandem::verbs {

/// What one end of a lane sends to the other to connect their queue pairs, once in each direction
/// over the authenticated connection; 128 bytes, little endian:
///
///    0 magic "TNDMRDMA"    8 version u32      12 mtu u32         16 gid 16 bytes
///   32 lid u16, 0 u16     36 data pair u32    40 its psn u32     44 control pair u32
///   48 its psn u32        52 key u32          56 chunks at u64   64 records u32
///   68 record bytes u32   72 chunks u32       76 chunk bytes u32 80 updates u32
///   84 reserved           124 CRC32C of bytes 0..123
struct qp_info {
  std::array<std::byte, 16> gid{};
  std::uint16_t lid = 0;
  std::uint32_t mtu_bytes = 1024;
  std::uint32_t data_pair = 0, data_psn = 0;
  std::uint32_t control_pair = 0, control_psn = 0;
  std::uint64_t chunks_at = 0;  ///< address of the slots
  std::uint32_t key = 0;        ///< rkey of the slots
  queue_depths has;
};

constexpr std::size_t qp_info_bytes = 128;
using wire_qp_info = std::array<std::byte, qp_info_bytes>;

wire_qp_info encode(const qp_info& from) noexcept;
/// All fields are checked: no count or length makes this end allocate more than a fixed multiple of
/// what its own lanes take. @par Errors `errc::protocol_violation`, `version_mismatch`.
qp_info decode(std::span<const std::byte, qp_info_bytes> from);

}  // namespace tandem::verbs
