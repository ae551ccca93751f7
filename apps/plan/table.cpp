#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tandem/parallel.hpp>
#include <vector>

#include "plan/plan.hpp"

namespace tandem::planner {
namespace {

constexpr std::size_t max_hosts = 16;

/// Why a pair of ranks has chosen its transport: "(ranks share memory)"; empty if there was no
/// choice.
std::string why(const path_facts& path, bool within, const plan_options& asked) {
  if (!asked.explains_paths) return {};
  const std::string far =
      path.channel == "rails" ? "settings ask for rails" : "no rails were asked for";
  if (path.channel == "shm") return " (ranks share memory)";
  if (path.channel != "tcp" && path.channel != "rails") return {};
  return fmt::format(" ({}{})", within ? "ranks share no memory, " : "", far);
}

std::string path_text(std::string_view between, const path_facts& path, const std::string& reason) {
  const auto latency_us = static_cast<double>(path.latency_ns) / 1e3;
  const auto gb_per_s = static_cast<double>(path.bytes_per_us) / 1e3;
  const std::string rails =
      path.rails > 0 ? fmt::format(" over {} rail{}", path.rails, path.rails == 1 ? "" : "s") : "";
  return fmt::format("{}: {}{}, {:.3g} us, {:.3g} GB/s{}\n", between, path.channel, rails,
                     latency_us, gb_per_s, reason);
}

}  // namespace

std::string hosts_text(const facts& known) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t r = 0; r < known.host_of_rank.size(); ++r) {
    std::vector<int>& ranks_of_host = ranks[known.host_of_rank[r]];
    if (ranks_of_host.empty()) names.push_back(known.host_of_rank[r]);
    ranks_of_host.push_back(static_cast<int>(r));
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), max_hosts); ++i) {
    text += fmt::format("host {}: ranks {}\n", i, ranks_text(ranks[names[i]]));
  }
  if (names.size() > max_hosts)
    text += fmt::format("and {} more hosts\n", names.size() - max_hosts);
  return text;
}

std::string table(const plan& agreed, const plan_options& asked) {
  const facts& known = agreed.known();
  std::string text = fmt::format("plan {:08x}\n{}", agreed.hash(), hosts_text(known));
  const std::vector<std::string>& hosts = known.host_of_rank;
  const bool one_host =
      std::ranges::adjacent_find(hosts, std::ranges::not_equal_to()) == hosts.end();
  text += path_text("inside a host", known.within, why(known.within, true, asked));
  if (!one_host) text += path_text("across hosts", known.across, why(known.across, false, asked));
  if (known.cores > 0) text += fmt::format("cores of a host: {}\n", known.cores);
  if (known.probed) {
    text +=
        asked.engine.reproducible
            ? "reductions: in an order that is the same in every run\n"
            : "reductions: in the fastest order by these rates, so that results may differ from "
              "run to run (--reproducible 0)\n";
  }
  text += fmt::format("\n{:<14}  {:<6}  {:<26}  {}\n", "operation", "from", "algorithm", "why");
  for (const plan_rule& rule : agreed.rules()) {
    if (!asked.op.empty() && asked.op != name(rule.what)) continue;
    text += fmt::format("{:<14}  {:<6}  {:<26}  {}\n", name(rule.what),
                        format_bytes(rule.from_bytes), describe(rule), rule.why);
  }
  return text;
}

}  // namespace tandem::planner
