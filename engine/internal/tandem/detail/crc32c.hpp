#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

/// CRC-32C (Castagnoli, RFC 3720 B.4) of `bytes` bytes, continuing from `before`.
/// Uses the fastest method of the processor: carry-less multiplication of 512 or 128 bits, the CRC
/// instruction (SSE 4.2), else a table.
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before = 0) noexcept;

}  // namespace tandem
