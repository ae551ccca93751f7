#include "perf/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tandem/channels.hpp>
#include <tandem/error.hpp>

#include "cli/command_line.hpp"
#include "cli/job_fabric.hpp"
#include "perf/device_mirror.hpp"
#include "perf/exercise.hpp"
#include "perf/operation.hpp"

namespace tandem::perf {

namespace {

constexpr int max_ranks = 4096;

constexpr std::size_t kilo = 1024, mega = 1024 * kilo;
constexpr std::string_view shared_memory_name = "shared";
constexpr std::int64_t max_iterations = 1'000'000'000;

/// A `memory_source` of shared buffers, which peers of this host map.
/// @par Errors thrown: `limit_exceeded`.
std::shared_ptr<std::byte> shared_memory(std::size_t bytes) {
  const auto made = std::make_shared<shm::shared_buffer>(bytes);
  return {made, made->data()};
}

error usage_error(std::string what, std::string advice = {}) {
  return error(errc::bad_option, std::move(what), std::move(advice));
}

std::vector<std::int64_t> parse_iterations(const std::string& text) {
  std::vector<std::int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int64_t number = 0;
    const auto [rest, failed] = std::from_chars(at, end, number);
    const bool whole = failed == std::errc() && (rest == end || *rest == ',');
    if (!whole || number < 1 || number > max_iterations) {
      throw usage_error(
          fmt::format("--iters={}: not a list of whole numbers from 1 to {}", text, max_iterations),
          "give one number, or one for each size: 1000,200");
    }
    numbers.push_back(number);
    if (rest == end) return numbers;
    at = rest + 1;
  }
}

std::vector<std::size_t> default_sizes(std::string_view op) {
  if (op == "barrier") return {0};
  if (op == "oneway") return {mega, 16 * mega, 64 * mega};
  return {8, kilo, 64 * kilo, mega, 16 * mega};
}

/// The enumerator with this name. @pre One exists.
template <class Enumeration>
Enumeration named(const std::string& word) {
  auto one = Enumeration{};
  while (name(one) != word) one = static_cast<Enumeration>(static_cast<int>(one) + 1);
  return one;
}

/// The names of all enumerators for which `exists` is true.
template <class Enumeration, class Exists>
std::vector<std::string_view> names_of(Exists exists) {
  std::vector<std::string_view> names;
  for (auto one = Enumeration{}; exists(one);
       one = static_cast<Enumeration>(static_cast<int>(one) + 1)) {
    names.push_back(name(one));
  }
  return names;
}

std::vector<std::string_view> operation_names() {
  std::vector<std::string_view> names;
  for (const operation& each : operations()) names.push_back(each.name);
  return names;
}

std::vector<std::string_view> channel_names() {
  std::vector<std::string_view> kinds = cli::fabric_kinds();
  kinds.emplace_back("local");
  return kinds;
}

/// Parses "2x2": number of islands, ranks of each.
void parse_islands(const std::string& text, perf_options& o) {
  const char* const end = text.data() + text.size();
  const auto [cross, failed] = std::from_chars(text.data(), end, o.islands);
  const bool has_cross = failed == std::errc() && cross != end && *cross == 'x';
  const auto [rest, failed_too] = has_cross
                                      ? std::from_chars(cross + 1, end, o.island_ranks)
                                      : std::from_chars_result{cross, std::errc::invalid_argument};
  if (failed_too != std::errc() || rest != end || o.islands < 1 || o.island_ranks < 1 ||
      o.islands > max_ranks || o.island_ranks > max_ranks / o.islands) {
    throw usage_error(
        fmt::format("--emulate-islands={}: not ISLANDSxRANKS of 1 to {} ranks", text, max_ranks),
        "2x2 stands for two islands of two ranks");
  }
  const int ranks = o.islands * o.island_ranks;
  if (o.ranks != 0 && o.ranks != ranks) {
    throw usage_error(fmt::format("--emulate-islands={}: {} ranks, not {}", text, ranks, o.ranks));
  }
  o.ranks = ranks;
  if (!o.on_devices()) {
    throw usage_error(fmt::format("--emulate-islands={}: islands need device memory", text),
                      "add --memory cuda or --memory hip");
  }
  if (!supports_islands(*o.op)) {
    throw usage_error(
        fmt::format("--emulate-islands={}: {} is not supported across islands", text, o.op->name),
        "choose allreduce, reduce, broadcast, allgather, reducescatter or alltoall");
  }
  if (o.how != algorithm::automatic) {
    throw usage_error(
        fmt::format("--emulate-islands={}: {} is an algorithm over channels", text, name(o.how)),
        "leave out --algorithm");
  }
}

void check_reduction(const perf_options& o, bool given) {
  if (!o.op->reduces && given) {
    throw usage_error(fmt::format("--type, --reduction: {} reduces nothing", o.op->name));
  }
  if (!is_defined(o.type, o.reduction)) {
    throw usage_error(
        fmt::format("--reduction={}: not defined for {}", name(o.reduction), name(o.type)),
        "bitwise reductions need an integer type");
  }
}

void check_sizes(const perf_options& o) {
  const std::size_t element_bytes = o.element_bytes();
  for (const std::size_t bytes : o.bytes) {
    if (bytes == 0 && o.op->name != "barrier")
      throw usage_error("--bytes=0: nothing to check", "give at least 1");
    if (!o.op->blocks && bytes % element_bytes != 0) {
      throw usage_error(fmt::format("--bytes={}: not a multiple of {}", bytes, element_bytes),
                        fmt::format("{} reduces elements of {} bytes ({})", o.op->name,
                                    element_bytes, name(o.type)));
    }
  }
}

/// Expands to one iteration count for each size.
std::vector<std::int64_t> iterations_per_size(std::vector<std::int64_t> iters, std::size_t sizes) {
  if (iters.size() == 1) iters.resize(sizes, iters[0]);
  if (iters.size() != sizes) {
    throw usage_error(fmt::format("--iters: {} number(s) for {} size(s)", iters.size(), sizes),
                      "give one, or one for each size");
  }
  return iters;
}

}  // namespace

bool perf_options::on_devices() const {
  return memory != name(memory_kind::host) && memory != shared_memory_name;
}

memory_source perf_options::source() const {
  return memory == shared_memory_name ? shared_memory : nullptr;
}

std::optional<perf_options> parse_options(std::span<const std::string> args) {
  perf_options o;
  std::string op, iters, emulated, how(name(o.how)), type(name(o.type)),
      reduction(name(o.reduction));
  cli::command_line line(
      {.command = "tandem perf",
       .arguments = "OP [options]",
       .summary =
           "Measures a channel or a collective. Every byte is checked; a wrong one fails the run. "
           "OP: pingpong (half the round-trip time), oneway (a window of messages, then one "
           "acknowledgement), both between rank 0 and the last rank; sendrecv (each rank to the "
           "next); allreduce, reduce, broadcast, allgather, reducescatter, gather, scatter, "
           "alltoall, barrier. The root is rank 0.",
       .examples = "  tandem perf pingpong --bytes 8,64K\n"
                   "  tandem perf oneway --bytes 64M --json results.jsonl\n"
                   "  tandem perf allreduce --ranks 4 --channel local --algorithm ring\n"
                   "  tandem perf reducescatter --type bfloat16 --reduction average\n"
                   "  tandem perf oneway --rails eth0,eth1\n"
                   "  tandem perf pingpong --channel shm --memory cuda --bytes 8,64M\n"
                   "  tandem run -n 4 -- tandem perf barrier\n"});
  line.positional("OP", op, "what to measure", false, operation_names());
  line.option("ranks", o.ranks, 1, 4096,
              "ranks to start; under a launcher, the number it must have started (default 2)");
  line.choice("channel", o.channel, channel_names(),
              "transport; --rails selects rails, mixed uses shm within a host");
  line.option(
      "memory", o.memory,
      "memory of the messages: host, shared (buffers mapped by the ranks of a host), cuda, hip, "
      "or a list (cuda,hip) assigned round-robin by local rank, as are the devices");
  line.option("emulate-islands", emulated,
              "2x2: emulate two islands of two ranks whose vendors share no collective library");
  line.option("algorithm", how,
              "algorithm of a collective; the error for an unknown name lists the valid ones");
  line.choice("type", type, names_of<data_type>([](data_type one) { return bytes_of(one) > 0; }),
              "element type of a reduction");
  line.choice("reduction", reduction,
              names_of<reduce_op>([](reduce_op one) { return is_defined(data_type::int32, one); }),
              "reduction operation; premultiplied_sum multiplies by 2");
  line.bytes_list("bytes", o.bytes,
                  "message length, or data per rank: the total of all blocks where there is one "
                  "for each rank, rounded to whole blocks");
  line.option("depth", o.depth, 1, 1024, "messages in flight (default: pingpong 1, oneway 16)");
  line.option("iters", iters,
              "iterations, one number or one for each size (default: about half a second)");
  line.option("warmup", o.warmup, 0, 1'000'000,
              "warm-up iterations, never more than --iters (default: at most 20)");
  line.output("json", o.json,
              "file to write, with one line of JSON for each size; until the end they are in "
              "FILE.part");
  line.engine_options(o.engine);
  if (!line.parse(args)) return std::nullopt;

  o.op = parse_operation(op);
  if (line.given("algorithm")) o.how = parse_algorithm(*o.op, how);
  o.type = named<data_type>(type);
  o.reduction = named<reduce_op>(reduction);
  if (o.memory != shared_memory_name) {
    cli::check_memory(o.memory, "host, shared, cuda or hip");
  }
  if (!emulated.empty()) parse_islands(emulated, o);
  check_reduction(o, line.given("type") || line.given("reduction"));
  o.channel = cli::fabric_kind_for(o.channel, line.given("channel"), o.engine);
  if (o.op->name == "barrier" && line.given("bytes"))
    throw usage_error("--bytes: a barrier carries no data");
  if (!o.point_to_point() && line.given("depth")) {
    throw usage_error(fmt::format("--depth: {} runs one call at a time", o.op->name),
                      "only pingpong and oneway have messages in flight");
  }
  if (o.op->who != rank_pattern::all && o.ranks == 1)
    throw usage_error(fmt::format("--ranks=1: {} needs two ranks", o.op->name));
  if (o.bytes.empty()) o.bytes = default_sizes(o.op->name);
  if (o.depth == 0) o.depth = o.op->name == "oneway" ? 16 : 1;
  check_sizes(o);
  if (line.given("iters")) o.iters = iterations_per_size(parse_iterations(iters), o.bytes.size());
  return o;
}

std::vector<std::pair<std::string, std::string>> changed_settings(const settings& engine) {
  const settings defaults;
  std::vector<std::pair<std::string, std::string>> changed;
  for (const option& one : option_table()) {
    const std::string value = one.get(engine);
    if (value != one.get(defaults)) changed.emplace_back(one.name, value);
  }
  return changed;
}

}  // namespace tandem::perf
