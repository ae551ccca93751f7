#include "fuzz/rails_targets.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <tandem/detail/crc32c.hpp>
#include <vector>

#include "fuzz/targets.hpp"
#include "transports/rails/core.hpp"
#include "transports/rails/lane_reader.hpp"
#include "transports/rails/nic/pairing.hpp"

namespace tandem::fuzz {
namespace {

using std::span;
constexpr std::size_t head_bytes = rails::envelope_bytes + protocol::frame_bytes;

/// Takes `count` bytes from the front, padded with zeros.
std::vector<std::byte> take(bytes& input, std::size_t count) {
  std::vector<std::byte> taken(count);
  const std::size_t here = std::min(count, input.size());
  std::copy_n(input.begin(), here, taken.begin());
  input = input.subspan(here);
  return taken;
}

/// Envelopes, frames and bodies with valid magic words and checksums, so that later checks are
/// reached.
std::vector<std::byte> lane_of(bytes input) {
  using protocol::put;
  std::vector<std::byte> wire;
  while (input.size() >= rails::envelope_bytes) {
    std::vector<std::byte> head = take(input, rails::envelope_bytes);
    rails::envelope e;
    e.kind = static_cast<rails::envelope_kind>(1 + static_cast<unsigned>(head[5]) % 3);
    e.lane = static_cast<std::uint16_t>(static_cast<unsigned>(head[6]) % 3);
    e.epoch = static_cast<std::uint32_t>(head[8]) % 4;
    e.number = protocol::take<std::uint16_t>(head.data() + 12);
    e.order = protocol::take<std::uint16_t>(head.data() + 16);
    e.arrived = protocol::take<std::uint8_t>(head.data() + 20);
    if (e.kind == rails::envelope_kind::packet) {
      std::vector<std::byte> frame = take(input, protocol::frame_bytes);
      put<std::uint32_t>(frame.data(), protocol::frame_magic);
      put<std::uint8_t>(frame.data() + 4, protocol::protocol_version);
      put<std::uint32_t>(frame.data() + 60, crc32c(frame.data(), 60));
      rails::encode(e, span(head).first<rails::envelope_bytes>());
      wire.insert(wire.end(), head.begin(), head.end());
      wire.insert(wire.end(), frame.begin(), frame.end());
      const auto payload = protocol::take<std::uint32_t>(frame.data() + 40);
      const auto follows = take(input, std::min<std::size_t>(payload, input.size()));
      wire.insert(wire.end(), follows.begin(), follows.end());
      continue;
    }
    e.body_bytes = protocol::take<std::uint8_t>(head.data() + 24);
    const auto body = take(input, e.body_bytes);
    if (e.body_bytes > 0) e.order = crc32c(body.data(), body.size());
    rails::encode(e, span(head).first<rails::envelope_bytes>());
    wire.insert(wire.end(), head.begin(), head.end());
    wire.insert(wire.end(), body.begin(), body.end());
  }
  wire.insert(wire.end(), input.begin(), input.end());
  return wire;
}

/// Discards everything that the core sends on its lanes.
void discard_output(rails::core& core, rails::core::time_point now) {
  rails::lane_write p;
  for (std::uint16_t lane = 0; lane < core.lanes(); ++lane) {
    for (int i = 0; i < 50 && core.next(lane, p, now); ++i) core.written(p);
    if (core.must_close(lane)) core.lane_lost(lane);
  }
}

}  // namespace

void lanes(bytes input) {
  if (input.size() > 32 * 1024) return;
  const std::vector<std::byte> wire = lane_of(input);
  std::array<std::array<char, 600>, 4> memory{};
  std::array<operation, 4> operations;
  rails::core core({256, 1024, 2048, 64}, {0, 1, "fuzz"}, std::chrono::minutes(1), 2, {}, true);
  rails::core::time_point now{std::chrono::hours(1)};
  for (std::uint16_t lane = 0; lane < 2; ++lane) core.lane_up(lane, 1, now);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    operations[i].what = i % 2 == 0 ? operation::kind::recv : operation::kind::send;
    operations[i].flow = static_cast<flow_id>(i / 2);
    operations[i].view = mutable_view(memory[i].data(), memory[i].size());
    core.messages().start(operations[i]);
  }
  discard_output(core, now);
  rails::lane_reader reader(core, 0);
  using outcome = rails::lane_reader::outcome;
  for (std::size_t at = 0; at < wire.size() && core.is_live(0);) {
    std::size_t taken = 0;
    for (const iovec part : reader.buffers()) {
      const std::size_t n = std::min({part.iov_len, wire.size() - at - taken, std::size_t{97}});
      std::memcpy(part.iov_base, wire.data() + at + taken, n);
      taken += n;
      if (n < part.iov_len) break;
    }
    at += taken;
    now += std::chrono::milliseconds(7);
    const outcome result = reader.advance(taken, now);
    if (result != outcome::good) {
      require(!reader.why().empty());
      break;
    }
    core.tick(now);
    discard_output(core, now);
  }
  core.lane_lost(0);
  core.fail(error(errc::channel_closed, "the end"), true);
  discard_output(core, now);
  std::size_t ended = 0;
  while (operation* const op = core.messages().pop_any()) {
    require(op->bytes <= 600);
    ++ended;
  }
  require(ended == operations.size());
}

void published_rails(bytes input) {
  const std::string_view line(reinterpret_cast<const char*>(input.data()), input.size());
  try {
    const std::vector<rails::published_rail> published = rails::decode(line);
    require(rails::decode(rails::encode(published)) == published);
    rails::pair_rails(published, published);
  } catch (const error& refused) {
    require(refused.code() == errc::protocol_violation || refused.code() == errc::version_mismatch);
  }
}

}  // namespace tandem::fuzz
