#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

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
