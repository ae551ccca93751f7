#include "transports/rails/verbs/qp_info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tandem/detail/crc32c.hpp>
#include <tandem/error.hpp>

#include "protocol/frame.hpp"

namespace tandem::verbs {
namespace {

using protocol::put;
using protocol::take;

constexpr std::string_view magic = "TNDMRDMA";
constexpr std::uint32_t version = 1;
constexpr std::size_t checked_bytes = 124;
constexpr std::uint32_t max_slots = 1 << 14;
constexpr std::uint32_t max_slot_bytes = 256 << 20;
constexpr std::uint32_t max_number = 1 << 24;  // of a queue pair or a packet: 24 bits

[[noreturn]] void refuse(std::string_view what) {
  throw error(errc::protocol_violation, fmt::format("the peer's queue pairs: {}", what),
              "is another program or another version at the other end?");
}

void check(const qp_info& c) {
  const queue_depths& has = c.has;
  const auto is_between = [](std::uint32_t value, std::uint32_t min_value,
                             std::uint32_t max_value) {
    return value >= min_value && value <= max_value;
  };
  if (!is_between(has.records, 2, max_slots) || !is_between(has.chunks, 1, max_slots) ||
      !is_between(has.updates, min_updates, max_slots)) {
    refuse("number of slots out of range");
  }
  if (!is_between(has.record_bytes, 1024, max_slot_bytes) ||
      !is_between(has.chunk_bytes, 1024, max_slot_bytes)) {
    refuse("slot length out of range");
  }
  const std::uint64_t bytes = std::uint64_t{has.chunks} * has.chunk_bytes;
  if (c.chunks_at == 0 || c.chunks_at + bytes < c.chunks_at) refuse("invalid slot address");
  if (c.data_pair >= max_number || c.control_pair >= max_number || c.data_psn >= max_number ||
      c.control_psn >= max_number || c.data_pair == c.control_pair) {
    refuse("invalid queue pair numbers");
  }
  const bool is_power = (c.mtu_bytes & (c.mtu_bytes - 1)) == 0;
  if (!is_between(c.mtu_bytes, 256, 4096) || !is_power) refuse("invalid MTU");
}

}  // namespace

wire_qp_info encode(const qp_info& from) noexcept {
  wire_qp_info to{};
  std::byte* const p = to.data();
  std::memcpy(p, magic.data(), magic.size());
  put(p + 8, version);
  put(p + 12, from.mtu_bytes);
  std::copy(from.gid.begin(), from.gid.end(), p + 16);
  put(p + 32, from.lid);
  put(p + 36, from.data_pair);
  put(p + 40, from.data_psn);
  put(p + 44, from.control_pair);
  put(p + 48, from.control_psn);
  put(p + 52, from.key);
  put(p + 56, from.chunks_at);
  put(p + 64, from.has.records);
  put(p + 68, from.has.record_bytes);
  put(p + 72, from.has.chunks);
  put(p + 76, from.has.chunk_bytes);
  put(p + 80, from.has.updates);
  put(p + checked_bytes, crc32c(p, checked_bytes));
  return to;
}

qp_info decode(std::span<const std::byte, qp_info_bytes> from) {
  const std::byte* const p = from.data();
  if (std::memcmp(p, magic.data(), magic.size()) != 0) refuse("wrong magic number");
  if (const auto theirs = take<std::uint32_t>(p + 8); theirs != version) {
    throw error(
        errc::version_mismatch,
        fmt::format("the peer's queue pair info has version {}, this one {}", theirs, version),
        "run the same Tandem on all ranks");
  }
  if (take<std::uint32_t>(p + checked_bytes) != crc32c(p, checked_bytes)) {
    refuse("checksum mismatch");
  }
  qp_info to;
  to.mtu_bytes = take<std::uint32_t>(p + 12);
  std::copy(p + 16, p + 32, to.gid.begin());
  to.lid = take<std::uint16_t>(p + 32);
  to.data_pair = take<std::uint32_t>(p + 36);
  to.data_psn = take<std::uint32_t>(p + 40);
  to.control_pair = take<std::uint32_t>(p + 44);
  to.control_psn = take<std::uint32_t>(p + 48);
  to.key = take<std::uint32_t>(p + 52);
  to.chunks_at = take<std::uint64_t>(p + 56);
  to.has = {take<std::uint32_t>(p + 64), take<std::uint32_t>(p + 68), take<std::uint32_t>(p + 72),
            take<std::uint32_t>(p + 76), take<std::uint32_t>(p + 80)};
  check(to);
  return to;
}

}  // namespace tandem::verbs
