#include "perf/report.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <tandem/version.hpp>

#include "cli/console.hpp"

namespace tandem::perf {

namespace {

std::string time_text(const perf_options& o) {
  if (o.op->name == "pingpong") return fmt::format("half a round trip of {} message(s)", o.depth);
  if (o.op->name == "oneway") return fmt::format("{} message(s) and one acknowledgement", o.depth);
  if (o.op->who == rank_pattern::neighbours) return "one message each, the slowest rank's time";
  return "one call, the slowest rank's time";
}

/// " of bfloat16 (sum), ring,": type and operation of a reduction, and a chosen algorithm.
std::string how(const perf_options& o) {
  std::string text;
  if (o.op->reduces) text = fmt::format(" of {} ({})", name(o.type), name(o.reduction));
  if (o.how != algorithm::automatic) text += fmt::format(", {},", name(o.how));
  return text;
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::size_t kilo = 1024, mega = 1024 * kilo;
  if (bytes >= mega && bytes % mega == 0) return fmt::format("{} MiB", bytes / mega);
  if (bytes >= kilo && bytes % kilo == 0) return fmt::format("{} KiB", bytes / kilo);
  return fmt::format("{} B", bytes);
}

}  // namespace

void report::print_header(int ranks) {
  const bool elsewhere = options_.memory != name(memory_kind::host);
  cli::print(fmt::format("{}{} over {}{}, {} ranks, tandem {} ({}); time of {}; GB = 1e9 bytes\n",
                         options_.op->name, how(options_), options_.channel,
                         elsewhere ? fmt::format(" in {} memory", options_.memory) : "", ranks,
                         version(), commit(), time_text(options_)));
  cli::print_now(fmt::format("{:>10} {:>9} {:>12} {:>12} {:>12} {:>11} {:>11} {:>7}\n", "bytes",
                             "iters", "min us", "p50 us", "p99 us", "algbw GB/s", "busbw GB/s",
                             "wrong"));
}

void report::print_line(const std::string& what) {
  cli::print(what + '\n');
}

void report::add(const record& line) {
  cli::print_now(fmt::format(
      "{:>10} {:>9} {:>12.2f} {:>12.2f} {:>12.2f} {:>11.3f} {:>11.3f} {:>7}\n",
      bytes_text(line.bytes), line.iters, line.time_us.min, line.time_us.p50, line.time_us.p99,
      line.algbw_gb_per_s(), line.busbw_gb_per_s(), line.wrong_bytes));
  if (json_.is_enabled()) json_.append(line.json() + "\n");
}

void report::rails(const std::vector<rail_stats>& all) {
  for (const rail_stats& rail : all) {
    cli::print(fmt::format("rail {}: {}, {:.1f} MiB sent, last rate {:.0f} MB/s, connection {}\n",
                           rail.name, rail.state,
                           static_cast<double>(rail.bytes_arrived) / (1 << 20),
                           rail.bytes_per_s / 1e6, rail.epoch));
  }
}

}  // namespace tandem::perf
