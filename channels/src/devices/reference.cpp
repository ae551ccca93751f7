#include "devices/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tandem/crc32c.hpp>

#include "protocol/frame.hpp"

namespace tandem::devices {
namespace {

using protocol::put;
using protocol::take;

constexpr std::uint32_t note_magic = 0x52444e54;  // "TNDR"
constexpr std::size_t checked_note_bytes = note_bytes - 4;
constexpr std::size_t words_at = 12;
constexpr std::size_t handle_at = 48;
static_assert(handle_at + sizeof(accelerator::handle) <= checked_note_bytes);
static_assert(words_at + sizeof(note::serials) <= checked_note_bytes);

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

bool is_note(std::span<const std::byte> message) noexcept {
  return message.size() == note_bytes && take<std::uint32_t>(message.data()) == note_magic;
}

void encode(const note& from, std::span<std::byte, note_bytes> to) {
  std::fill(to.begin(), to.end(), std::byte{0});
  std::byte* const p = to.data();
  put<std::uint32_t>(p, note_magic);
  put<std::uint8_t>(p + 4, static_cast<std::uint8_t>(from.what));
  put<std::uint32_t>(p + 8, from.id);
  std::size_t count = 0;
  switch (from.what) {
    case note::type::described: {
      const shared_allocation& a = from.allocation;
      put<std::uint8_t>(p + 5, static_cast<std::uint8_t>(a.kind));
      put<std::uint64_t>(p + 16, a.base);
      put<std::uint64_t>(p + 24, a.bytes);
      put_uuid(p + 32, a.uuid);
      std::copy(a.handle.begin(), a.handle.end(), p + handle_at);
      break;
    }
    case note::type::refused:
      count = std::min(from.why.size(), checked_note_bytes - words_at);
      std::memcpy(p + words_at, from.why.data(), count);
      break;
    case note::type::pulled:
      count = from.count;
      for (std::size_t i = 0; i < count; ++i) put(p + words_at + 4 * i, from.serials[i]);
      break;
    default:
      break;
  }
  put<std::uint16_t>(p + 6, static_cast<std::uint16_t>(count));
  put<std::uint32_t>(p + checked_note_bytes, crc32c(p, checked_note_bytes));
}

std::optional<note> decode_note(std::span<const std::byte> from, std::string& why) {
  const std::byte* const p = from.data();
  if (take<std::uint32_t>(p + checked_note_bytes) != crc32c(p, checked_note_bytes)) {
    why = "wrong checksum of a control message";
    return std::nullopt;
  }
  note made;
  const auto type = take<std::uint8_t>(p + 4);
  const auto kind = take<std::uint8_t>(p + 5);
  const std::size_t count = take<std::uint16_t>(p + 6);
  made.what = static_cast<note::type>(type);
  made.id = take<std::uint32_t>(p + 8);
  switch (made.what) {
    case note::type::described:
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
      std::copy_n(p + handle_at, made.allocation.handle.size(), made.allocation.handle.begin());
      return made;
    case note::type::retired:
    case note::type::opened:
      return made;
    case note::type::refused:
      if (count > checked_note_bytes - words_at) break;
      made.why.assign(reinterpret_cast<const char*>(p + words_at), count);
      return made;
    case note::type::pulled:
      if (count > made.serials.size()) break;
      made.count = static_cast<std::uint16_t>(count);
      for (std::size_t i = 0; i < count; ++i) {
        made.serials[i] = take<std::uint32_t>(p + words_at + 4 * i);
      }
      return made;
  }
  why = fmt::format("a control message of type {}, kind {} and count {}", type, kind, count);
  return std::nullopt;
}

}  // namespace tandem::devices
