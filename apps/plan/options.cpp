#include "plan/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tandem/collectives.hpp>
#include <tandem/detail/board_sharing.hpp>
#include <tandem/error.hpp>

#include "cli/command_line.hpp"
#include "cli/job_fabric.hpp"
#include "cli/memory_location.hpp"
#include "cli/text.hpp"

namespace tandem::planner {
namespace {

constexpr int max_ranks = 4096;
constexpr double max_us = 1e7, max_gb_per_s = 1e6;

error usage_error(std::string what, std::string advice = {}) {
  return error(errc::bad_option, std::move(what), std::move(advice));
}

std::optional<int> parse_count(std::string_view text) {
  return cli::parse_integer(text, 1, max_ranks);
}

/// Options for one kind of path.
struct path_options {
  double latency_us = 5;
  double gb_per_s = 2;

  void declare(cli::command_line& line, const std::string& prefix, const std::string& between) {
    line.option(prefix + "latency-us", latency_us, 0.001, max_us,
                fmt::format("one-way latency of a short message {}", between));
    line.option(prefix + "gb-per-s", gb_per_s, 0.001, max_gb_per_s,
                fmt::format("one-way bandwidth of long messages {}", between));
  }
  void apply(path_facts& to, bool latency_given, bool rate_given) const {
    if (latency_given) to.latency_ns = static_cast<std::uint64_t>(latency_us * 1e3 + 0.5);
    if (rate_given) to.bytes_per_us = static_cast<std::uint64_t>(gb_per_s * 1e3 + 0.5);
  }
};

}  // namespace

std::vector<std::string> parse_hosts(const std::string& text) {
  const auto refuse = [&text]() -> error {
    return usage_error(
        fmt::format("--hosts={}: not a list of hosts with up to {} ranks in total", text,
                    max_ranks),
        "for example 2x4 (two hosts of four ranks each), or the host of each rank: a,b,a,b");
  };
  const std::size_t cross = text.find('x');
  const std::optional<int> hosts = parse_count(std::string_view(text).substr(0, cross));
  if (hosts) {
    const std::optional<int> each = cross == std::string::npos
                                        ? std::nullopt
                                        : parse_count(std::string_view(text).substr(cross + 1));
    if (!each || *hosts * *each > max_ranks) throw refuse();
    std::vector<std::string> result;
    for (int r = 0; r < *hosts * *each; ++r) result.push_back(fmt::format("host{}", r / *each));
    return result;
  }
  std::vector<std::string> result;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    result.emplace_back(rest.substr(0, comma));
    if (result.back().empty() || result.size() > max_ranks) throw refuse();
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (result.size() == 1) throw refuse();
  return result;
}

std::vector<std::vector<int>> parse_members(const std::string& text) {
  const auto refuse = [&text](const std::string& why) {
    return usage_error(fmt::format("--members={}: {}", text, why), "for example 0-3/4-7,9");
  };
  std::vector<std::vector<int>> groups(1);
  std::set<int> group;
  std::string_view rest = text;
  while (true) {
    const std::size_t end = std::min(rest.find_first_of(",/"), rest.size());
    const std::string_view range = rest.substr(0, end);
    const std::size_t dash = std::min(range.find('-'), range.size());
    const std::optional<int> first = cli::parse_integer(range.substr(0, dash), 0, max_ranks - 1);
    const std::optional<int> last =
        dash == range.size() ? first : cli::parse_integer(range.substr(dash + 1), 0, max_ranks - 1);
    if (!first || !last || *last < *first) {
      throw refuse(fmt::format("\"{}\" is not a rank or a range of ranks", range));
    }
    for (int rank = *first; rank <= *last; ++rank) {
      if (!group.insert(rank).second) throw refuse(fmt::format("rank {} is in it twice", rank));
      groups.back().push_back(rank);
    }
    if (end == rest.size()) return groups;
    if (rest[end] == '/') {
      groups.emplace_back();
      group.clear();
    }
    rest.remove_prefix(end + 1);
  }
}

namespace {

/// Options of `groups`, except hosts.
struct group_options {
  std::string layout, members, islands;
  bool names_hosts = false;

  void declare(cli::command_line& line) {
    line.option("layout", layout,
                "groups: dimensions of the layout, outermost first: pipeline=2,data=2,tensor=2");
    line.option("members", members,
                "groups: instead of a layout, the ranks of each group that a script makes: "
                "0-3/4-7,9");
    line.option("islands", islands,
                "groups: ranks of each island: nvidia:4,amd:4; host stands for CPU memory. Each "
                "island is a host of its own unless --hosts is given");
  }
  void check(plan_options::request what) const {
    if (what != plan_options::request::groups) {
      for (const auto& [option, value] :
           {std::pair("--layout", &layout), {"--members", &members}, {"--islands", &islands}}) {
        if (value->empty()) continue;
        throw usage_error(fmt::format("{}: for plan groups only", option),
                          "use tandem plan groups");
      }
    } else if (layout.empty() == members.empty()) {
      throw usage_error(
          layout.empty() ? "--layout is missing" : "--layout and --members exclude each other",
          "for example --layout pipeline=2,data=2,tensor=2 or --members 0-3/4-7");
    }
  }
  void apply(plan_options& o) const;
};

memory_kind kind_of_island(const std::string& name) {
  if (name == "nvidia") return memory_kind::cuda;
  if (name == "amd") return memory_kind::hip;
  if (name == "host") return memory_kind::host;
  constexpr std::string_view names[] = {"nvidia", "amd", "host"};
  throw usage_error(fmt::format("--islands: {} is not a vendor", name),
                    suggestion_for(name, names));
}

/// Fills in the facts that ranks would report, each with a device of its own.
void group_options::apply(plan_options& o) const {
  int ranks = 0;
  if (members.empty()) {
    o.layout = parallel_layout::parse(layout);
    ranks = o.layout->ranks();
  } else {
    o.members = parse_members(members);
    for (const std::vector<int>& group : o.members) {
      ranks = std::max(ranks, *std::max_element(group.begin(), group.end()) + 1);
    }
  }
  std::vector<std::string>& hosts = o.assumed.host_of_rank;
  const auto add = [&o](memory_kind kind, int colour) {
    const int library = kind == memory_kind::host ? 0 : rank_facts::unknown_version;
    o.ranks.push_back({kind, colour, library, std::to_string(o.ranks.size())});
  };
  if (!islands.empty()) {
    std::vector<std::string> own_hosts;
    int colour = 0;
    for (const cli::island& each : cli::parse_islands(islands)) {
      for (int i = 0; i < each.ranks; ++i) {
        add(kind_of_island(each.name), colour);
        own_hosts.push_back(fmt::format("host{}", colour));
      }
      ++colour;
    }
    if (!names_hosts) hosts = std::move(own_hosts);
    if (hosts.size() != o.ranks.size()) {
      throw usage_error(fmt::format("--islands={}: {} ranks, but the hosts have {}", islands,
                                    o.ranks.size(), hosts.size()),
                        "give islands and hosts the same number of ranks");
    }
  } else {
    if (!names_hosts) hosts = facts::one_host(ranks).host_of_rank;
    std::map<std::string_view, int> ranks_on;
    for (const std::string& host : hosts) add(cli::memory_kind_for(o.memory, ranks_on[host]++), 0);
  }
  if (o.layout) {
    o.layout->check(static_cast<int>(hosts.size()));
  } else if (ranks > static_cast<int>(hosts.size())) {
    throw usage_error(fmt::format("--members={}: rank {} is not among the {} ranks", members,
                                  ranks - 1, hosts.size()),
                      "name ranks that the hosts or islands have");
  }
}

constexpr std::string_view requests[] = {"show", "probe", "groups", "pipeline"};

plan_options::request parse_request(const std::string& word) {
  if (word == "show") return plan_options::request::show;
  if (word == "probe") return plan_options::request::probe;
  if (word == "groups") return plan_options::request::groups;
  if (word == "pipeline") throw usage_error("pipeline: comes before all options");
  const std::string_view near = nearest(word, requests);
  throw usage_error(
      fmt::format("{}: not one of show, probe, groups, pipeline", word),
      near.empty() ? "see tandem plan --help" : fmt::format("did you mean {}?", near));
}

}  // namespace

std::optional<plan_options> parse_options(std::span<const std::string> args) {
  plan_options o;
  std::string what = "show", hosts;
  int ranks = 0;
  path_options within, across;
  group_options groups;
  std::vector<std::string_view> operations;
  for (std::size_t i = 0; i < collective_count; ++i) {
    operations.push_back(name(static_cast<collective>(i)));
  }
  cli::command_line line(
      {.command = "tandem plan",
       .arguments = "show|probe|groups|pipeline [options]",
       .summary =
           "show: the algorithm of each collective for each length, and why. Under a launcher the "
           "ranks measure and agree, and rank 0 prints; else for the ranks given by --ranks or "
           "--hosts. probe: under a launcher, writes the measurements to a file for --profile. "
           "groups: the back-end or transport of each parallel group, and why. pipeline: a "
           "pipeline "
           "schedule, see tandem plan pipeline --help. --plan pins all of "
           "a plan or parts of it: all_reduce:64K-=ring/512K is OPERATION:FROM-BELOW=ALGORITHM/"
           "LARGEST_CHUNK, with commas between pins.",
       .examples = "  tandem plan show --hosts 2x2 --latency-us 30 --gb-per-s 0.125\n"
                   "  tandem plan show --hosts a,b,a,b --plan broadcast=tree\n"
                   "  tandem run -n 4 -- tandem plan show\n"
                   "  tandem run -n 4 -- tandem plan probe --save rates\n"
                   "  tandem plan groups --layout pipeline=2,tensor=4 --islands nvidia:4,amd:4\n"
                   "  tandem plan pipeline --schedule zb_v --ranks 4 --micro-batches 8\n"
                   "  tandem plan show --profile rates --ranks 8\n",
       .nested = {{"pipeline", "pipeline schedule, and the time of a step"}}});
  line.positional("WHAT", what, "show, probe, groups, or pipeline", true,
                  {std::begin(requests), std::end(requests)});
  line.option("ranks", ranks, 1, max_ranks, "ranks on one host (default 4)");
  line.option("hosts", hosts, "2x4: two hosts of four ranks each; a,b,a,b: the host of each rank");
  across.declare(line, "", "across hosts");
  within.declare(line, "within-", "inside a host");
  line.choice("channel", o.channel, cli::fabric_kinds(),
              "transport between the ranks; mixed uses shm within a host");
  line.option("memory", o.memory,
              "memory of most messages: host, cuda, hip, or a list, round-robin by local rank");
  line.choice("op", o.op, operations, "show only this operation");
  groups.declare(line);
  line.output("save", o.save, "probe: the file to write");
  line.engine_options(o.engine);
  if (!line.parse(args)) return std::nullopt;

  o.what = parse_request(what);
  const bool probes = o.what == plan_options::request::probe;
  if (probes && o.save.empty())
    throw usage_error("--save is missing", "give probe a file to write");
  if (!probes && !o.save.empty()) {
    throw usage_error(fmt::format("--save: {} writes no file", what), "use probe --save");
  }
  groups.check(o.what);
  if (line.given("ranks") && line.given("hosts")) {
    throw usage_error("--ranks and --hosts exclude each other", "leave one of them out");
  }
  for (const char* const name : {"ranks", "hosts", "islands", "latency-us", "gb-per-s",
                                 "within-latency-us", "within-gb-per-s"}) {
    o.assumes = o.assumes || line.given(name);
  }
  if (!o.engine.profile.empty()) {
    o.assumed = facts::load(o.engine.profile, o.engine.meet_timeout);
  }
  if (!hosts.empty()) o.assumed.host_of_rank = parse_hosts(hosts);
  if (line.given("ranks")) o.assumed.host_of_rank = facts::one_host(ranks).host_of_rank;
  if (o.assumed.host_of_rank.empty()) o.assumed.host_of_rank = facts::one_host(4).host_of_rank;
  if (o.engine.profile.empty() || line.given("channel")) {
    const bool mixed = o.channel == "mixed";
    const std::string far = o.engine.rails.empty() ? "tcp" : "rails";
    o.assumed.within.channel = mixed ? "shm" : o.channel;
    o.assumed.across.channel = mixed ? far : o.channel;
  }
  cli::check_memory(o.memory);
  if (o.memory != name(memory_kind::host)) o.assumed.use_devices();
  o.assumed.has_board = may_share_board(o.assumed.within.channel, o.assumed.host_of_rank);
  o.assumed.probed = o.engine.profile.empty();  // as in a job
  o.explains_paths = o.channel == "mixed" && o.engine.profile.empty();
  across.apply(o.assumed.across, line.given("latency-us"), line.given("gb-per-s"));
  within.apply(o.assumed.within, line.given("within-latency-us"), line.given("within-gb-per-s"));
  groups.names_hosts = line.given("hosts") || line.given("ranks");
  if (o.what == plan_options::request::groups) groups.apply(o);
  return o;
}

}  // namespace tandem::planner
