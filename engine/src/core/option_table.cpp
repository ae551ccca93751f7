#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ratio>
#include <tandem/detail/number_text.hpp>
#include <tandem/error.hpp>
#include <tandem/settings.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "option_error.hpp"

namespace tandem {
namespace {

using detail::bad;
using detail::giga;
using detail::kilo;
using detail::mega;

/// Seconds per unit; 0 for an unknown unit.
double seconds_per(std::string_view suffix, double plain) {
  if (suffix.empty()) return plain;
  if (suffix == "us") return 1e-6;
  if (suffix == "ms") return 1e-3;
  return suffix == "s" ? 1.0 : 0.0;
}

/// A duration in seconds; a number without unit is in units of `Plain`: "50", "200us", "1.5s".
template <class Plain>
double parse_seconds(std::string_view text, std::string_view unit_name) {
  double number = 0;
  std::string_view suffix = text;
  const detail::number_kind kind = detail::take_number(suffix, number);
  const double unit = seconds_per(suffix, static_cast<double>(Plain::num) / Plain::den);
  if (kind == detail::number_kind::not_a_number || unit == 0.0) {
    throw bad(text, fmt::format("not a number of {}", unit_name),
              "write a number, or one with us, ms or s");
  }
  return number * unit;
}

template <std::size_t settings::*Member>
std::string get_bytes(const settings& from) {
  return format_bytes(from.*Member);
}

template <std::size_t settings::*Member, std::size_t Min, std::size_t Max>
void set_bytes(settings& into, std::string_view text) {
  const std::size_t bytes = parse_bytes(text);
  if (bytes < Min || bytes > Max) {
    throw bad(text, fmt::format("outside {} to {} bytes", format_bytes(Min), format_bytes(Max)));
  }
  into.*Member = bytes;
}

/// A count, as text.
template <std::size_t settings::*Member>
std::string get_count(const settings& from) {
  return std::to_string(from.*Member);
}

std::size_t parse_count(std::string_view text, std::size_t min, std::size_t max,
                        std::string_view unit) {
  std::size_t count = 0;
  const detail::number_kind kind = detail::read_number(text, count);
  if (kind == detail::number_kind::not_a_number) {
    throw bad(text, fmt::format("not a number of {}", unit));
  }
  if (count < min || count > max) {
    throw bad(text, fmt::format("outside {} to {} {}", min, max, unit));
  }
  return count;
}

void set_max_flows(settings& into, std::string_view text) {
  into.max_flows = parse_count(text, 1, mega, "flows");
}

void set_island(settings& into, std::string_view text) {
  into.island = parse_count(text, 0, mega, "an island");
}

void set_min_survivors(settings& into, std::string_view text) {
  into.min_survivors = parse_count(text, 0, mega, "ranks");
}

void set_rail_streams(settings& into, std::string_view text) {
  into.rail_streams = parse_count(text, 1, 16, "streams");
}

void set_checksum(settings& into, std::string_view text) {
  into.checksum = parse_count(text, 0, 2, "0, 1 or 2");
}

constexpr std::string_view automatic_word = "auto";

template <std::string settings::*Member>
std::string get_words(const settings& from) {
  return (from.*Member).empty() ? std::string(automatic_word) : from.*Member;
}

/// No rails are requested; "auto" requests them and is kept as a word.
constexpr std::string_view no_rails = "none";

std::string get_rails(const settings& from) {
  return from.rails.empty() ? std::string(no_rails) : from.rails;
}

/// The words are parsed by the modules that define them; here they must only be printable.
template <std::string settings::*Member>
void set_words(settings& into, std::string_view text, std::string_view example) {
  if (text.size() > 4 * kilo) throw bad(text.substr(0, 40), "longer than 4096 characters");
  const bool printable =
      std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!printable) {
    throw bad(text, "blanks or unprintable characters",
              fmt::format("write words separated by commas: {}", example));
  }
  into.*Member = text == automatic_word ? std::string_view() : text;
}

void set_rails(settings& into, std::string_view text) {
  set_words<&settings::rails>(into, text, "eth0,10.0.0.0/24");
  into.rails = text == no_rails ? std::string_view() : text;
}

void set_plan(settings& into, std::string_view text) {
  set_words<&settings::plan>(into, text, "all_reduce:64K-=ring/512K,broadcast=tree");
}

void set_congestion(settings& into, std::string_view text) {
  if (text.size() > 15) throw bad(text.substr(0, 40), "longer than 15 characters");
  set_words<&settings::congestion>(into, text, "cubic");
}

void set_host(settings& into, std::string_view text) {
  if (text.size() > 255) throw bad(text.substr(0, 40), "longer than 255 characters");
  set_words<&settings::host>(into, text, "rack1-node7");
}

std::string get_spin(const settings& from) {
  return std::to_string(from.spin.count());
}

void set_spin(settings& into, std::string_view text) {
  const double seconds = parse_seconds<std::micro>(text, "microseconds");
  if (!(seconds >= 0 && seconds <= 1)) throw bad(text, "outside 0 to 1000000 microseconds");
  into.spin = std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6 + 0.5));
}

template <std::chrono::milliseconds settings::*Member>
std::string get_seconds(const settings& from) {
  return fmt::format("{}", static_cast<double>((from.*Member).count()) / 1e3);
}

template <std::chrono::milliseconds settings::*Member>
void set_seconds(settings& into, std::string_view text) {
  constexpr double week = 7 * 24 * 3600;
  const double seconds = parse_seconds<std::ratio<1>>(text, "seconds");
  if (!(seconds >= 1e-3 && seconds <= week)) throw bad(text, "outside 0.001 to 604800 seconds");
  into.*Member = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3 + 0.5));
}

constexpr std::array levels{log_level::debug, log_level::info, log_level::warning,
                            log_level::error};

std::string get_log(const settings& from) {
  return std::string(name(from.log));
}

void set_log(settings& into, std::string_view text) {
  const auto* const found = std::find_if(levels.begin(), levels.end(),
                                         [text](log_level level) { return name(level) == text; });
  if (found == levels.end()) {
    throw bad(text, "no such log level", "choose debug, info, warning or error");
  }
  into.log = *found;
}

template <bool settings::*Member>
std::string get_flag(const settings& from) {
  return from.*Member ? "1" : "0";
}

template <bool settings::*Member>
void set_flag(settings& into, std::string_view text) {
  if (text != "0" && text != "1") throw bad(text, "neither 0 nor 1");
  into.*Member = text == "1";
}

std::string get_ring_bytes(const settings& from) {
  if (from.shm_ring_bytes == 0) return std::string(automatic_word);
  return get_bytes<&settings::shm_ring_bytes>(from);
}

void set_ring_bytes(settings& into, std::string_view text) {
  if (text == automatic_word) {
    into.shm_ring_bytes = 0;
    return;
  }
  try {
    set_bytes<&settings::shm_ring_bytes, 64 * kilo, giga>(into, text);
  } catch (const error& why) {
    error_context context = why.context();
    context.advice = "write auto, or a number of bytes such as 4M";
    throw error(why.code(), context);
  }
}

std::string get_single_copy(const settings& from) {
  if (from.shm_single_copy == single_copy::automatic) return "auto";
  return from.shm_single_copy == single_copy::on ? "1" : "0";
}

void set_single_copy(settings& into, std::string_view text) {
  if (text != "auto" && text != "0" && text != "1") throw bad(text, "neither auto nor 0 nor 1");
  into.shm_single_copy = text == "auto" ? single_copy::automatic
                         : text == "1"  ? single_copy::on
                                        : single_copy::off;
}

constexpr std::array<std::pair<std::string_view, rdma_use>, 4> rdma_words{
    {{automatic_word, rdma_use::automatic},
     {"on", rdma_use::on},
     {"off", rdma_use::off},
     {"both", rdma_use::both}}};

std::string get_rdma(const settings& from) {
  const auto* const found = std::find_if(rdma_words.begin(), rdma_words.end(),
                                         [&from](const auto& w) { return w.second == from.rdma; });
  return std::string(found->first);
}

void set_rdma(settings& into, std::string_view text) {
  const auto* const found = std::find_if(rdma_words.begin(), rdma_words.end(),
                                         [text](const auto& w) { return w.first == text; });
  if (found == rdma_words.end()) throw bad(text, "neither auto nor on, off or both");
  into.rdma = found->second;
}

constexpr std::string_view no_file = "none";

template <std::string settings::*Member>
std::string get_file(const settings& from) {
  return (from.*Member).empty() ? std::string(no_file) : from.*Member;
}

template <std::string settings::*Member>
void set_file(settings& into, std::string_view text) {
  if (text.empty()) throw bad(text, "the path is empty", "give a path, or none");
  into.*Member = text == no_file ? std::string_view() : text;
}

constexpr auto max_message_part = 64 * mega;

constexpr std::array<option, 39> table{{
    {"eager-bytes", "TANDEM_EAGER_BYTES", "bytes",
     "messages up to this length are sent eagerly, longer ones by rendezvous",
     get_bytes<&settings::eager_bytes>, set_bytes<&settings::eager_bytes, 0, max_message_part>},
    {"chunk-bytes", "TANDEM_CHUNK_BYTES", "bytes",
     "long messages are sent in chunks of this length", get_bytes<&settings::chunk_bytes>,
     set_bytes<&settings::chunk_bytes, kilo, max_message_part>},
    {"credit-bytes", "TANDEM_CREDIT_BYTES", "bytes",
     "bytes a peer may send before any is received; bounds the memory for unexpected messages",
     get_bytes<&settings::credit_bytes>, set_bytes<&settings::credit_bytes, 4 * kilo, 16 * giga>},
    {"max-flows", "TANDEM_MAX_FLOWS", "flows", "maximum number of flows between two ranks",
     get_count<&settings::max_flows>, set_max_flows},
    {"socket-buffer-bytes", "TANDEM_SOCKET_BUFFER_BYTES", "bytes",
     "send and receive buffer of each socket; 0: the kernel's default",
     get_bytes<&settings::socket_buffer_bytes>, set_bytes<&settings::socket_buffer_bytes, 0, giga>},
    {"congestion", "TANDEM_CONGESTION", "name, system or auto",
     "TCP congestion control; auto: reno within a host, the system's default beyond it",
     get_words<&settings::congestion>, set_congestion},
    {"rails", "TANDEM_RAILS", "words",
     "NICs to use: none, auto, or names, addresses or subnets separated by commas; ^ excludes, a "
     "number limits how many",
     get_rails, set_rails},
    {"rdma", "TANDEM_RDMA", "auto, on, off, both",
     "rails: auto uses RDMA if both ends have it and keeps TCP as a spare, on requires it, off "
     "never probes for it, both uses RDMA and TCP for one message",
     get_rdma, set_rdma},
    {"rail-streams", "TANDEM_RAIL_STREAMS", "streams", "TCP streams on each rail",
     get_count<&settings::rail_streams>, set_rail_streams},
    {"rail-timeout-s", "TANDEM_RAIL_TIMEOUT_S", "s",
     "a rail that is silent for this long, while another is not, fails over to the others",
     get_seconds<&settings::rail_timeout>, set_seconds<&settings::rail_timeout>},
    {"peer-timeout-s", "TANDEM_PEER_TIMEOUT_S", "s",
     "a rank that is silent for this long on all rails, and whose process does not answer either, "
     "is lost",
     get_seconds<&settings::peer_timeout>, set_seconds<&settings::peer_timeout>},
    {"checksum", "TANDEM_CHECKSUM", "0, 1 or 2",
     "CRC32C of payloads: 0 none, 1 on TCP rails to other hosts, 2 on all rails",
     get_count<&settings::checksum>, set_checksum},
    {"encrypt", "TANDEM_ENCRYPT", "0 or 1",
     "1 encrypts tcp and rails traffic (AES-256-GCM); the same on all ranks; needs a job secret",
     get_flag<&settings::encrypt>, set_flag<&settings::encrypt>},
    {"shm-single-copy", "TANDEM_SHM_SINGLE_COPY", "auto, 0 or 1",
     "shm: 1 reads a peer's long messages in place, 0 copies them through the ring; auto uses "
     "what is measured to be faster when two ranks connect",
     get_single_copy, set_single_copy},
    {"peer-copies", "TANDEM_PEER_COPIES", "0 or 1",
     "device memory between ranks of one host: 1 lets the receiver's copy engine read it where "
     "possible, 0 stages it through host memory",
     get_flag<&settings::peer_copies>, set_flag<&settings::peer_copies>},
    {"shared-staging", "TANDEM_SHARED_STAGING", "0 or 1",
     "device memory staged through the host between ranks of one host: 1 shares the pinned "
     "staging memory, 0 sends it like host memory",
     get_flag<&settings::shared_staging>, set_flag<&settings::shared_staging>},
    {"gpudirect", "TANDEM_GPUDIRECT", "0 or 1",
     "device memory over RDMA: 1 lets NICs access it directly where they can, 0 stages it through "
     "pinned memory",
     get_flag<&settings::gpudirect>, set_flag<&settings::gpudirect>},
    {"vendor-library", "TANDEM_VENDOR_LIBRARY", "0 or 1",
     "C interface and PyTorch: 1 lets groups whose ranks are one island of GPUs use NCCL or RCCL, "
     "0 does not",
     get_flag<&settings::vendor_library>, set_flag<&settings::vendor_library>},
    {"island", "TANDEM_ISLAND", "number",
     "C interface and PyTorch: ranks with different numbers are never in one island, even with the "
     "same vendor; to try a job across islands on one host",
     get_count<&settings::island>, set_island},
    {"stream-waits", "TANDEM_STREAM_WAITS", "0 or 1",
     "C interface and PyTorch: 1 lets streams instead of threads wait for device memory that "
     "channels carry; needs CUDA_MODULE_LOADING=EAGER",
     get_flag<&settings::stream_waits>, set_flag<&settings::stream_waits>},
    {"stream-staging-bytes", "TANDEM_STREAM_STAGING_BYTES", "bytes",
     "C interface and PyTorch: operations on device memory that channels carry go through pinned "
     "memory in the order of streams if no rank has more data; 0: none",
     get_bytes<&settings::stream_staging_bytes>,
     set_bytes<&settings::stream_staging_bytes, 0, giga>},
    {"stream-kernel-bytes", "TANDEM_STREAM_KERNEL_BYTES", "bytes",
     "NCCL's interface, and PyTorch's collectives: kernels carry out calls of up to so many bytes "
     "between GPUs of one host that are no island, in the order of streams, but messages and "
     "collectives of more than two ranks over 8M; 0: none",
     get_bytes<&settings::stream_kernel_bytes>, set_bytes<&settings::stream_kernel_bytes, 0, giga>},
    {"stream-relay-bytes", "TANDEM_STREAM_RELAY_BYTES", "bytes",
     "the same between GPUs that do not reach each other's memory, as those of two hosts: the data "
     "go through pinned memory and the links of both ranks; 0: none",
     get_bytes<&settings::stream_relay_bytes>, set_bytes<&settings::stream_relay_bytes, 0, giga>},
    {"shm-ring-bytes", "TANDEM_SHM_RING_BYTES", "auto or bytes",
     "shm: ring per direction of a pair of ranks; auto: from cache sizes and the number of ranks",
     get_ring_bytes, set_ring_bytes},
    {"spin-us", "TANDEM_SPIN_US", "us",
     "how long a loop polls before it sleeps, and up to 16 times as long while its sleeps are "
     "short; saves 20 to 40 us per message, occupies a core",
     get_spin, set_spin},
    {"operation-timeout-s", "TANDEM_OPERATION_TIMEOUT_S", "s",
     "an operation that takes longer fails", get_seconds<&settings::operation_timeout>,
     set_seconds<&settings::operation_timeout>},
    {"meet-timeout-s", "TANDEM_MEET_TIMEOUT_S", "s",
     "how long ranks wait at startup for each other, name servers, files and drivers",
     get_seconds<&settings::meet_timeout>, set_seconds<&settings::meet_timeout>},
    {"min-survivors", "TANDEM_MIN_SURVIVORS", "ranks",
     "the job may go on without lost ranks while so many are left; 0: it ends with the first loss",
     get_count<&settings::min_survivors>, set_min_survivors},
    {"collective-chunk-bytes", "TANDEM_COLLECTIVE_CHUNK_BYTES", "bytes",
     "collectives pipeline their data in chunks of this length",
     get_bytes<&settings::collective_chunk_bytes>,
     set_bytes<&settings::collective_chunk_bytes, kilo, giga>},
    {"plan", "TANDEM_PLAN", "words",
     "pinned choices of the plan, the same on all ranks: all_reduce:64K-=ring/512K,broadcast=tree",
     get_words<&settings::plan>, set_plan},
    {"profile", "TANDEM_PROFILE", "path or none",
     "file of `tandem plan probe`: the plan is computed from it, without probing",
     get_file<&settings::profile>, set_file<&settings::profile>},
    {"reproducible", "TANDEM_REPRODUCIBLE", "0 or 1",
     "1: reductions combine in an order that does not follow from what ranks measure at startup, "
     "so every run gives the same bits; 0: in the order measured to be the fastest",
     get_flag<&settings::reproducible>, set_flag<&settings::reproducible>},
    {"host", "TANDEM_HOST", "words",
     "name of this host, for the plan and for mixed: the same on all ranks of a host",
     get_words<&settings::host>, set_host},
    {"log", "TANDEM_LOG", "debug, info, warning, error", "lowest level that is logged", get_log,
     set_log},
    {"insecure", "TANDEM_INSECURE", "0 or 1", "1 allows listening beyond loopback without a secret",
     get_flag<&settings::insecure>, set_flag<&settings::insecure>},
    {"secret-file", "TANDEM_SECRET_FILE", "path or none",
     "file of mode 0600 with the secret shared by all ranks of a job; the variable TANDEM_SECRET "
     "can hold the secret itself",
     get_file<&settings::secret_file>, set_file<&settings::secret_file>},
    {"certificate-file", "TANDEM_CERTIFICATE_FILE", "path or none",
     "instead of a secret: this rank's certificate with its chain (PEM)",
     get_file<&settings::certificate_file>, set_file<&settings::certificate_file>},
    {"key-file", "TANDEM_KEY_FILE", "path or none",
     "private key of the certificate (PEM), of mode 0600", get_file<&settings::key_file>,
     set_file<&settings::key_file>},
    {"authorities-file", "TANDEM_AUTHORITIES_FILE", "path or none",
     "authorities: a peer with a certificate signed by one of these is trusted as a rank (PEM)",
     get_file<&settings::authorities_file>, set_file<&settings::authorities_file>},
}};

}  // namespace

std::span<const option> option_table() noexcept {
  return table;
}

}  // namespace tandem
