#include "devices/handshake.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tandem/detail/crc32c.hpp>

#include "protocol/frame.hpp"

namespace tandem::devices {
namespace {

using protocol::put;
using protocol::take;

constexpr std::string_view magic = "TNDMDEVS";
constexpr std::size_t checked_handshake_bytes = 60;

}  // namespace

void encode(const handshake& from, std::span<std::byte, handshake_bytes> to) noexcept {
  std::fill(to.begin(), to.end(), std::byte{0});
  std::byte* const p = to.data();
  std::memcpy(p, magic.data(), magic.size());
  put<std::uint32_t>(p + 8, from.version);
  put<std::uint32_t>(p + 12, from.credit_bytes);
  put<std::uint32_t>(p + 16, from.kinds);
  put<std::uint32_t>(p + 20, from.inline_bytes);
  std::copy(from.where.host.begin(), from.where.host.end(), p + 24);
  std::copy(from.where.process.begin(), from.where.process.end(), p + 40);
  put<std::uint32_t>(p + 56, from.flags);
  put<std::uint32_t>(p + checked_handshake_bytes, crc32c(p, checked_handshake_bytes));
}

handshake decode(std::span<const std::byte> from, std::string& why) {
  const std::byte* const p = from.data();
  if (from.size() != handshake_bytes || std::memcmp(p, magic.data(), magic.size()) != 0) {
    why = "the peer's channel carries host memory only";
    return {};
  }
  if (take<std::uint32_t>(p + checked_handshake_bytes) != crc32c(p, checked_handshake_bytes)) {
    why = "wrong checksum of a handshake";
    return {};
  }
  handshake theirs{take<std::uint32_t>(p + 8), take<std::uint32_t>(p + 12),
                   take<std::uint32_t>(p + 16), take<std::uint32_t>(p + 20)};
  std::copy_n(p + 24, theirs.where.host.size(), theirs.where.host.begin());
  std::copy_n(p + 40, theirs.where.process.size(), theirs.where.process.begin());
  theirs.flags = take<std::uint32_t>(p + 56);
  if (theirs.version != handshake{}.version) {
    why = fmt::format("the peer's devices channel has version {}, this one {}", theirs.version,
                      handshake{}.version);
  }
  return theirs;
}

}  // namespace tandem::devices
