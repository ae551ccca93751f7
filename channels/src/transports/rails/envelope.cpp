#include "transports/rails/envelope.hpp"

#include <fmt/format.h>

#include <cstring>
#include <tandem/detail/crc32c.hpp>

#include "protocol/frame.hpp"

namespace tandem::rails {
namespace {

constexpr std::uint32_t magic = 0x52444e54;  // "TNDR"
constexpr std::uint8_t envelope_version = 1;
constexpr std::size_t used_bytes = 32;
using protocol::put;
using protocol::take;

bool has_body(envelope_kind kind) noexcept {
  return kind == envelope_kind::report || kind == envelope_kind::fenced;
}

}  // namespace

void encode(const envelope& from, std::span<std::byte, envelope_bytes> to) noexcept {
  std::byte* p = to.data();
  put<std::uint32_t>(p, magic);
  put<std::uint8_t>(p + 4, envelope_version);
  put<std::uint8_t>(p + 5, static_cast<std::uint8_t>(from.kind));
  put<std::uint16_t>(p + 6, from.lane);
  put<std::uint32_t>(p + 8, from.epoch);
  put<std::uint32_t>(p + 12, from.number);
  put<std::uint32_t>(p + 16, from.order);
  put<std::uint32_t>(p + 20, from.arrived);
  put<std::uint32_t>(p + 24, from.body_bytes);
  put<std::uint32_t>(p + 28, crc32c(p, 28));
  std::memset(p + used_bytes, 0, envelope_bytes - used_bytes);
}

std::optional<envelope> decode(std::span<const std::byte, envelope_bytes> from, std::string& why) {
  const std::byte* p = from.data();
  const auto kind = take<std::uint8_t>(p + 5);
  if (take<std::uint32_t>(p) != magic || take<std::uint32_t>(p + 28) != crc32c(p, 28)) {
    why = "envelope checksum mismatch";
    return {};
  }
  if (take<std::uint8_t>(p + 4) != envelope_version || kind < 1 ||
      kind > static_cast<std::uint8_t>(envelope_kind::fenced)) {
    why = fmt::format("unknown envelope version {} or kind {}", take<std::uint8_t>(p + 4), kind);
    return {};
  }
  envelope e;
  e.kind = static_cast<envelope_kind>(kind);
  e.lane = take<std::uint16_t>(p + 6);
  e.epoch = take<std::uint32_t>(p + 8);
  e.number = take<std::uint32_t>(p + 12);
  e.order = take<std::uint32_t>(p + 16);
  e.arrived = take<std::uint32_t>(p + 20);
  e.body_bytes = take<std::uint32_t>(p + 24);
  if (e.body_bytes > (has_body(e.kind) ? max_body_bytes : 0)) {
    why = fmt::format("an envelope of kind {} announces a body of {} bytes", kind, e.body_bytes);
    return {};
  }
  return e;
}

}  // namespace tandem::rails
