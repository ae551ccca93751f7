#include "plan/cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "partition/slices.hpp"

namespace tandem::detail {
namespace {

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

std::uint64_t transfer_ns(std::uint64_t bytes, std::uint64_t bytes_per_us) {
  return divide_up(bytes * 1000, bytes_per_us);
}

/// The extra cost of a turn, because another rank gets the core: an all_reduce of 8 bytes by four
/// ranks on two cores takes 13 us through shared memory (`bench/compare`), in eight turns.
constexpr std::uint64_t turn_ns = 1'600;

/// Long messages are announced and sent on request of the receiver: one more round trip, and inside
/// a host three more latencies until both ends copy at full rate: half a ping-pong of 64 KiB over
/// loopback takes 17 us, of 256 KiB 50 us, of 1 MiB 104 us. Across hosts the round trip of the next
/// chunk overlaps with the transfer.
constexpr std::uint64_t announced_bytes = 64 * 1024;
constexpr std::uint64_t to_announce = 2, to_copy_at_full_rate = 3;  // latencies
/// Messages up to this length stay in a core's cache between copy and combination, which is then
/// `faster_in_cache` times as fast, but does not overlap with the copy: both need the core.
constexpr std::uint64_t cached_bytes = 1024 * 1024;
constexpr std::uint64_t faster_in_cache = 2;

/// Fixed cost of each further piece of a message between devices.
constexpr std::uint64_t device_piece_ns = 1'000;

std::uint64_t announcing_ns(const facts& known, std::uint64_t bytes, std::uint64_t in_turns) {
  // Negligible compared with the latency of any message in device memory.
  if (bytes < announced_bytes || known.on_devices) return 0;
  const std::uint64_t latencies = to_announce + (in_turns == 1 ? to_copy_at_full_rate : 0);
  return latencies * known.within.latency_ns;
}

bool is_oversubscribed(const step& s, const facts& known) {
  return known.cores > 0 && s.busy > known.cores && !known.on_devices;
}

/// The time in which all ranks of a host copy, at the same time.
std::uint64_t copied_ns(const step& s, const facts& known, std::uint64_t bytes) {
  const std::uint64_t each = is_oversubscribed(s, known) ? divide_up(s.busy, known.cores) : 1;
  return s.times *
         (transfer_ns(each * bytes, known.combine_bytes_per_us) + known.combine_latency_ns);
}

/// The number of turns for the messages inside a host, each of which occupies two cores: one if
/// there are enough cores for all of them.
std::uint64_t turns(const step& s, const facts& known) {
  return is_oversubscribed(s, known) ? divide_up(2 * s.busy, known.cores) : 1;
}

/// The latency of short messages inside a host: each needs a core, and each rank a turn on one.
std::uint64_t latency_ns(const step& s, const facts& known, std::uint64_t in_turns) {
  if (in_turns == 1) return known.within.latency_ns;
  return in_turns * known.within.latency_ns + divide_up(2 * s.running, known.cores) * turn_ns;
}

/// The time of one step whose messages have `bytes` each.
std::uint64_t once_ns(const step& s, const facts& known, std::uint64_t bytes,
                      std::uint64_t in_turns) {
  const std::uint64_t overhead_ns = known.within.latency_ns / 2;
  const std::uint64_t others = s.inside + s.outside - 1;
  std::uint64_t inside = 0, crossing = 0;
  if (s.inside > 0) {
    inside = latency_ns(s, known, in_turns) + announcing_ns(known, bytes, in_turns) +
             transfer_ns(std::max(s.inside, in_turns) * bytes, known.within.bytes_per_us);
  }
  if (s.crossing > 0) {
    crossing = known.across.latency_ns + transfer_ns(s.crossing * bytes, known.across.bytes_per_us);
  }
  // A rank with messages both inside and across hosts is not the same in every step, so then at
  // most one message has to wait.
  const std::uint64_t waits = std::max(s.inside, s.outside) == 1 ? 0 : others * overhead_ns;
  return std::max(inside, crossing) + waits;
}

std::uint64_t step_ns(const step& s, const facts& known, std::uint64_t bytes,
                      std::uint64_t chunk_bytes) {
  const std::uint64_t message = divide_up(bytes * s.part, s.whole);
  if (s.local) return copied_ns(s, known, message);
  const std::uint64_t overhead_ns = known.within.latency_ns / 2;
  const std::uint64_t all_turns = turns(s, known);
  const bool is_cached = s.crossing == 0 && message <= cached_bytes && !known.on_devices;
  const auto combined_ns = [&](std::uint64_t length) {
    if (!s.combines) return std::uint64_t{0};
    const std::uint64_t faster = is_cached ? faster_in_cache : 1;
    const std::uint64_t each = std::max(s.inside, s.outside);
    return transfer_ns(each * length, faster * known.combine_bytes_per_us) +
           known.combine_latency_ns;
  };
  if (s.piped) {
    const std::uint64_t chunks = std::max<std::uint64_t>(divide_up(message, chunk_bytes), 1);
    const std::uint64_t chunk = divide_up(message, chunks);
    // The first chunk takes all steps; each further one ends one transfer later, because its
    // latency overlaps with the one before if every rank has its own core.
    const std::uint64_t one = once_ns(s, known, chunk, 1) + combined_ns(chunk);
    std::uint64_t next = once_ns(s, known, chunk, all_turns);
    if (all_turns == 1) next = next - once_ns(s, known, 0, 1) + overhead_ns;
    return s.times * one + (chunks - 1) * (next + combined_ns(chunk));
  }
  const std::uint64_t pieces =
      s.chunked ? std::max<std::uint64_t>(divide_up(message, chunk_bytes), 1) : 1;
  std::uint64_t piece_ns = all_turns == 1 ? overhead_ns : latency_ns(s, known, all_turns);
  // One piece is combined while the next one is in flight; copy engines need no core for that.
  if (known.on_devices) {
    const std::uint64_t piece = divide_up(message, pieces);
    const std::uint64_t travels = transfer_ns(piece, known.within.bytes_per_us);
    piece_ns = device_piece_ns + combined_ns(piece) - std::min(combined_ns(piece), travels);
  }
  return s.times * (once_ns(s, known, message, all_turns) + (pieces - 1) * piece_ns +
                    combined_ns(is_cached ? message : divide_up(message, pieces)));
}

}  // namespace

std::uint64_t predict_ns(const std::vector<step>& steps, const facts& known, std::uint64_t bytes,
                         std::uint64_t chunk_bytes) {
  const std::uint64_t slices = slice_count(bytes, chunk_bytes);
  std::array<std::uint64_t, 4> of_level{};
  for (const step& s : steps) {
    const std::uint64_t times = s.level > 0 ? slices : 1;
    of_level[static_cast<std::size_t>(s.level)] +=
        times * step_ns(s, known, divide_up(bytes, times), chunk_bytes);
  }
  // Levels work at the same time: the slowest counts in full, the others with one slice.
  const auto levels = std::span(of_level).subspan(1);
  const std::uint64_t slowest = *std::ranges::max_element(levels);
  const std::uint64_t all = std::accumulate(levels.begin(), levels.end(), std::uint64_t{0});
  return of_level[0] + slowest + (all - slowest) / slices;
}

std::string describe(const std::vector<step>& steps) {
  std::uint64_t count = 0, inside = 0, crossing = 0;  // hundredths of the data
  for (const step& s : steps) {
    const std::uint64_t times = s.piped ? 1 : s.times;
    if (!s.local) count += s.times;
    inside += times * s.inside * s.part * 100 / s.whole;
    crossing += times * s.crossing * s.part * 100 / s.whole;
  }
  const std::uint64_t share = crossing > 0 ? crossing : inside;
  std::string text = fmt::format("{} step{}", count, count == 1 ? "" : "s");
  if (share > 0) {
    text += fmt::format(", {}.{:02} of the data through a {}", share / 100, share % 100,
                        crossing > 0 ? "host's link" : "rank's link");
  }
  return text;
}

std::string time_text(std::uint64_t ns) {
  if (ns < 10'000) return fmt::format("{}.{} us", ns / 1000, ns % 1000 / 100);
  if (ns < 10'000'000) return fmt::format("{} us", ns / 1000);
  return fmt::format("{} ms", ns / 1'000'000);
}

}  // namespace tandem::detail
