#include "devices/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tandem/detail/crc32c.hpp>

#include "protocol/frame.hpp"

namespace tandem::devices {
namespace {

using protocol::put;
using protocol::take;

constexpr std::uint32_t control_magic = 0x52444e54;  // "TNDR"
constexpr std::size_t checked_control_bytes = control_message_bytes - 4;
constexpr std::size_t body_offset = 12;
constexpr std::size_t handle_offset = 48;
static_assert(handle_offset + sizeof(accelerator::handle) <= checked_control_bytes);
static_assert(body_offset + sizeof(control_message::serials) <= checked_control_bytes);
constexpr std::size_t page_unit_bytes = 4096;
static_assert(body_offset + control_message::max_pages * 8 <= checked_control_bytes);

constexpr std::size_t uuid_bytes = 16;

std::byte nibble(char c) noexcept {
  return static_cast<std::byte>(c <= '9' ? c - '0' : c - 'a' + 10);
}

/// Anything but 32 hexadecimal digits leaves zeros.
void put_uuid(std::byte* at, const std::string& text) noexcept {
  if (text.size() != 2 * uuid_bytes) return;
  for (std::size_t i = 0; i < uuid_bytes; ++i) {
    at[i] = nibble(text[2 * i]) << 4 | nibble(text[2 * i + 1]);
  }
}

std::string take_uuid(const std::byte* at) {
  std::string text;
  for (std::size_t i = 0; i < uuid_bytes; ++i) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(at[i]));
  }
  return text;
}

}  // namespace

void encode(const reference& from, std::byte* to) noexcept {
  put<std::uint32_t>(to, from.serial);
  put<std::uint32_t>(to + 4, from.at.allocation);
  put<std::uint64_t>(to + 8, from.at.offset);
}

reference decode_reference(const std::byte* from) noexcept {
  return {take<std::uint32_t>(from),
          {take<std::uint32_t>(from + 4), take<std::uint64_t>(from + 8)}};
}

bool is_control_message(std::span<const std::byte> message) noexcept {
  return message.size() == control_message_bytes &&
         take<std::uint32_t>(message.data()) == control_magic;
}

void encode(const control_message& from, std::span<std::byte, control_message_bytes> to) {
  std::fill(to.begin(), to.end(), std::byte{0});
  std::byte* const p = to.data();
  put<std::uint32_t>(p, control_magic);
  put<std::uint8_t>(p + 4, static_cast<std::uint8_t>(from.what));
  put<std::uint32_t>(p + 8, from.id);
  std::size_t count = 0;
  switch (from.what) {
    case control_message::type::described: {
      const shared_allocation& a = from.allocation;
      put<std::uint8_t>(p + 5, static_cast<std::uint8_t>(a.kind));
      put<std::uint64_t>(p + 16, a.base);
      put<std::uint64_t>(p + 24, a.bytes);
      put_uuid(p + 32, a.uuid);
      std::copy(a.handle.begin(), a.handle.end(), p + handle_offset);
      count = a.page_count;
      break;
    }
    case control_message::type::pages:
      for (const described_pages& each : from.allocation.pages) {
        put<std::uint32_t>(p + body_offset + 8 * count, each.descriptor);
        put<std::uint32_t>(p + body_offset + 8 * count + 4,
                           static_cast<std::uint32_t>(each.bytes / page_unit_bytes));
        ++count;
      }
      break;
    case control_message::type::refused:
      count = std::min(from.why.size(), checked_control_bytes - body_offset);
      std::memcpy(p + body_offset, from.why.data(), count);
      break;
    case control_message::type::pulled:
      count = from.count;
      for (std::size_t i = 0; i < count; ++i) put(p + body_offset + 4 * i, from.serials[i]);
      break;
    default:
      break;
  }
  put<std::uint16_t>(p + 6, static_cast<std::uint16_t>(count));
  put<std::uint32_t>(p + checked_control_bytes, crc32c(p, checked_control_bytes));
}

std::optional<control_message> decode_control_message(std::span<const std::byte> from,
                                                      std::string& why) {
  const std::byte* const p = from.data();
  if (take<std::uint32_t>(p + checked_control_bytes) != crc32c(p, checked_control_bytes)) {
    why = "wrong checksum of a control message";
    return std::nullopt;
  }
  control_message made;
  const auto type = take<std::uint8_t>(p + 4);
  const auto kind = take<std::uint8_t>(p + 5);
  const std::size_t count = take<std::uint16_t>(p + 6);
  made.what = static_cast<control_message::type>(type);
  made.id = take<std::uint32_t>(p + 8);
  switch (made.what) {
    case control_message::type::described:
      if (kind != static_cast<std::uint8_t>(memory_kind::host) &&
          kind != static_cast<std::uint8_t>(memory_kind::cuda) &&
          kind != static_cast<std::uint8_t>(memory_kind::hip)) {
        break;
      }
      made.allocation.id = made.id;
      made.allocation.kind = static_cast<memory_kind>(kind);
      made.allocation.base = take<std::uint64_t>(p + 16);
      made.allocation.bytes = take<std::uint64_t>(p + 24);
      made.allocation.uuid = take_uuid(p + 32);
      std::copy_n(p + handle_offset, made.allocation.handle.size(), made.allocation.handle.begin());
      made.allocation.page_count = count;
      if (count > max_described_pages) break;
      return made;
    case control_message::type::pages:
      if (count == 0 || count > control_message::max_pages) break;
      for (std::size_t i = 0; i < count; ++i) {
        const std::byte* const at = p + body_offset + 8 * i;
        made.allocation.pages.push_back(
            {take<std::uint32_t>(at),
             take<std::uint32_t>(at + 4) * std::uint64_t{page_unit_bytes}});
      }
      return made;
    case control_message::type::retired:
    case control_message::type::opened:
      return made;
    case control_message::type::refused:
      if (count > checked_control_bytes - body_offset) break;
      made.why.assign(reinterpret_cast<const char*>(p + body_offset), count);
      return made;
    case control_message::type::pulled:
      if (count > made.serials.size()) break;
      made.count = static_cast<std::uint16_t>(count);
      for (std::size_t i = 0; i < count; ++i) {
        made.serials[i] = take<std::uint32_t>(p + body_offset + 4 * i);
      }
      return made;
  }
  why = fmt::format("a control message of type {}, kind {} and count {}", type, kind, count);
  return std::nullopt;
}

}  // namespace tandem::devices
