#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

/// CRC-32C (Castagnoli, RFC 3720 B.4) of `bytes` bytes, continuing from `before`.
/// Uses the fastest method of the processor: carry-less multiplication of 512 or 128 bits, the CRC
/// instruction (SSE 4.2), else a table.
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before = 0) noexcept;

/// CRC-32C of complete blocks by carry-less multiplication: blocks are folded onto each other, and
/// the last 16 bytes go through the CRC instruction. After Gopal et al., "Fast CRC Computation for
/// Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009; the constants are computed here.
/// `crc` is not inverted; at least one block.
std::uint32_t fold_128(const unsigned char* p, std::size_t blocks_of_64,
                       std::uint32_t crc) noexcept;
std::uint32_t fold_512(const unsigned char* p, std::size_t blocks_of_256,
                       std::uint32_t crc) noexcept;

/// True if this processor has the required instructions.
bool can_fold_128() noexcept;
bool can_fold_512() noexcept;

}  // namespace tandem
