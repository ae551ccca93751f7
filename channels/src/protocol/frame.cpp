#include "protocol/frame.hpp"

#include <fmt/format.h>

#include <tandem/detail/crc32c.hpp>

namespace tandem::protocol {

frame close_frame_for(const error& reason) noexcept {
  frame f;
  f.type = frame_type::close;
  f.flags = reason.code() == errc::channel_closed ? 0 : after_error;
  return f;
}

void encode(const frame& from, wire_frame& to) noexcept {
  const bool announces = from.type == frame_type::announce;
  std::byte* p = to.data();
  put<std::uint32_t>(p, frame_magic);
  put<std::uint8_t>(p + 4, protocol_version);
  put<std::uint8_t>(p + 5, static_cast<std::uint8_t>(from.type));
  put<std::uint16_t>(p + 6, from.flags);
  put<std::uint32_t>(p + 8, from.job_epoch);
  put<std::uint32_t>(p + 12, from.rail_epoch);
  put<std::uint64_t>(p + 16, from.message_id);
  if (carries_note(from.type)) {
    put<std::uint64_t>(p + 24, from.signature.call);
  } else {
    put<std::uint32_t>(p + 24, from.chunk_index);
    put<std::uint32_t>(p + 28, from.chunk_count);
  }
  put<std::uint64_t>(p + 32, from.offset);
  put<std::uint32_t>(p + 40, from.payload_bytes);
  put<std::uint32_t>(p + 44, from.flow);
  put<std::uint32_t>(p + 48, announces ? from.chunk_bytes : from.payload_crc);
  put<std::uint32_t>(p + 52, from.credit);
  put<std::uint32_t>(p + 56, from.signature.history);
  put<std::uint32_t>(p + 60, crc32c(p, 60));
}

std::optional<frame> decode(std::span<const std::byte, frame_bytes> from, std::string& why) {
  const std::byte* p = from.data();
  if (take<std::uint32_t>(p) != frame_magic) {
    why = fmt::format("a frame starts with {:#010x}", take<std::uint32_t>(p));
    return {};
  }
  if (take<std::uint32_t>(p + 60) != crc32c(p, 60)) {
    why = "a frame's checksum is wrong";
    return {};
  }
  const auto version = take<std::uint8_t>(p + 4);
  if (version != protocol_version) {
    why = fmt::format("a frame of protocol version {}", version);
    return {};
  }
  const auto type = take<std::uint8_t>(p + 5);
  if (type < 1 || type > static_cast<std::uint8_t>(last_frame_type)) {
    why = fmt::format("a frame of unknown type {}", type);
    return {};
  }
  frame f;
  f.type = static_cast<frame_type>(type);
  f.flags = take<std::uint16_t>(p + 6);
  f.job_epoch = take<std::uint32_t>(p + 8);
  f.rail_epoch = take<std::uint32_t>(p + 12);
  f.message_id = take<std::uint64_t>(p + 16);
  if (carries_note(f.type)) {
    f.signature = {take<std::uint64_t>(p + 24), take<std::uint32_t>(p + 56)};
  } else {
    f.chunk_index = take<std::uint32_t>(p + 24);
    f.chunk_count = take<std::uint32_t>(p + 28);
  }
  f.offset = take<std::uint64_t>(p + 32);
  f.payload_bytes = take<std::uint32_t>(p + 40);
  f.flow = take<std::uint32_t>(p + 44);
  const auto word = take<std::uint32_t>(p + 48);
  (f.type == frame_type::announce ? f.chunk_bytes : f.payload_crc) = word;
  f.credit = take<std::uint32_t>(p + 52);
  if (f.payload_bytes > 0 && !carries_payload(f.type)) {
    why = fmt::format("a frame of type {} with {} payload bytes", type, f.payload_bytes);
    return {};
  }
  return f;
}

}  // namespace tandem::protocol
