#include "perf/record.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>

#include "cli/text.hpp"
#include "perf/operation.hpp"

namespace tandem::perf {

namespace {

using cli::json_text;

/// Nearest-rank percentile of sorted samples.
double percentile(const std::vector<double>& sorted, double share) {
  const double index = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(std::max(index, 1.0)) - 1)];
}

const char* compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

}  // namespace

times_us summarize(std::vector<double> samples_us, double longest_mean_us) {
  if (samples_us.empty()) return {};
  std::ranges::sort(samples_us);
  return {samples_us.front(), percentile(samples_us, 0.5), percentile(samples_us, 0.99),
          longest_mean_us};
}

double mean_of(const std::vector<double>& samples_us) {
  if (samples_us.empty()) return 0;
  const double sum = std::accumulate(samples_us.begin(), samples_us.end(), 0.0);
  return sum / static_cast<double>(samples_us.size());
}

double record::algbw_gb_per_s() const {
  if (bytes == 0 || time_us.p50 <= 0) return 0;
  return static_cast<double>(bytes) * depth / (time_us.p50 * 1e3);
}

double record::busbw_gb_per_s() const {
  const operation* const what = find_operation(op);
  return algbw_gb_per_s() * (what != nullptr ? what->busbw_factor(ranks) : 1);
}

std::string record::json() const {
  utsname machine{};
  uname(&machine);
  std::string changed;
  for (const auto& [name, value] : settings) {
    changed +=
        fmt::format("{}{}: {}", changed.empty() ? "" : ", ", json_text(name), json_text(value));
  }
  std::string rails;
  for (const auto& [name, carried] : rail_bytes) {
    rails += fmt::format(R"({}{{"name": {}, "bytes": {}}})", rails.empty() ? "" : ", ",
                         json_text(name), carried);
  }
  if (!rails.empty()) rails = fmt::format(R"("rails": [{}], )", rails);
  std::string how;
  for (const auto& [name, word] : {std::pair("memory", &memory),
                                   {"algorithm", &algorithm},
                                   {"type", &type},
                                   {"reduction", &reduction}}) {
    if (!word->empty()) how += fmt::format(R"("{}": {}, )", name, json_text(*word));
  }
  if (islands > 0) how += fmt::format(R"("islands": {}, )", islands);
  return fmt::format(
      R"({{"op": {}, "channel": {}, {}"ranks": {}, "bytes": {}, "depth": {}, "iters": {}, )"
      R"("time_us": {{"min": {:.3f}, "p50": {:.3f}, "p99": {:.3f}, "mean": {:.3f}}}, )"
      R"("algbw_gb_per_s": {:.6g}, "busbw_gb_per_s": {:.6g}, "wrong_bytes": {}, {})"
      R"("host": {}, "commit": {}, "kernel": {}, "compiler": {}, "settings": {{{}}}, "date": "{:%FT%TZ}"}})",
      json_text(op), json_text(channel), how, ranks, bytes, depth, iters, time_us.min, time_us.p50,
      time_us.p99, time_us.mean, algbw_gb_per_s(), busbw_gb_per_s(), wrong_bytes, rails,
      json_text(machine.nodename), json_text(commit), json_text(machine.release),
      json_text(compiler()), changed, fmt::gmtime(std::time(nullptr)));
}

std::int64_t iterations_for(double iteration_us, double budget_us) {
  return static_cast<std::int64_t>(std::clamp(budget_us / std::max(iteration_us, 0.01), 5.0, 50e3));
}

}  // namespace tandem::perf
