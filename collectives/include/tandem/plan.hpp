/// What a job knows of itself, and the algorithms that follow from it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tandem/collectives.hpp>
#include <tandem/settings.hpp>
#include <vector>

#pragma GCC visibility push(default)

namespace tandem {

/// The path of a message between two ranks. Integers, so that results computed from them are the
/// same on every machine and with every compiler.
struct path_facts {
  std::string channel = "local";       ///< the transport: "shm", "tcp", "rails"
  std::size_t rails = 0;               ///< NICs that it is striped over; 0: no rails
  std::uint64_t latency_ns = 5'000;    ///< one-way latency of a few bytes
  std::uint64_t bytes_per_us = 2'000;  ///< one-way rate of long messages; 1000 is 1 GB/s

  bool operator==(const path_facts&) const = default;

  /// The profile lines of the path with that name: "within" or "across".
  std::string text(std::string_view name) const;
};

/// The input of a plan: which ranks share a host, and how fast messages are inside and across
/// hosts.
///
/// Inside a host every rank has the full rate as long as there are enough cores. Across hosts, all
/// ranks of a host share its one link.
struct facts {
  std::vector<std::string> host_of_rank;
  path_facts within;
  path_facts across;
  /// Collectives work on device memory: copy engines move the data and kernels combine it, so ranks
  /// do not compete for cores, and long chunks are the most efficient.
  bool on_devices = false;
  std::uint64_t combine_bytes_per_us = 10'000;  ///< rate of combining, one core or one device
  std::uint64_t combine_latency_ns = 0;         ///< fixed cost of one combination
  /// Cores that the ranks of a host share, on the host with the fewest; 0: each rank has its own.
  std::uint64_t cores = 0;

  /// All ranks share a `board`. Not part of a profile.
  bool has_board = false;
  /// Latencies and rates were measured in this run, so they may be others in the next one. Not part
  /// of a profile.
  bool probed = false;

  bool operator==(const facts&) const = default;

  /// Facts for that many ranks on one host with the defaults above, which are those of loopback TCP
  /// on a processor of 2020.
  static facts one_host(int ranks);
  /// Sets `on_devices` and the cost of combining on a device: 1 TB/s, and 15 us to launch a kernel
  /// and wait for it (from an all_reduce between two H200).
  void use_devices() noexcept;
  /// The facts of these ranks only, in this order and without a board. @pre each is an index into
  /// `host_of_rank`.
  facts of(std::span<const int> ranks) const;

  /// Lines such as "within.latency_ns 4800", which `parse` reads. In a profile file they follow a
  /// first line of its own.
  std::string text() const;
  /// Reads the format of `text()`. Empty lines and text after # are ignored; only the order of host
  /// lines matters. Of several cores lines the lowest value counts; one memory line with "device"
  /// is enough. Missing keys keep their defaults.
  /// @par Errors `errc::bad_input`: the line number, what is wrong, and the nearest valid key.
  static facts parse(std::string_view text);
  /// Reads a profile file, which begins with a line with its length and checksum, or with "tandem
  /// profile 1: edited" if it was written or edited by hand.
  /// @param limit  blocks at most for so long, if the file system does not answer
  /// @par Errors those of `parse`; `errc::bad_input`: it cannot be read, or was cut or changed;
  ///   `errc::timed_out`.
  static facts load(const std::string& file,
                    std::chrono::milliseconds limit = settings().meet_timeout);
};

/// The algorithm and chunk of a collective for lengths of `from_bytes` and more.
struct plan_rule {
  collective what = collective::barrier;
  std::size_t from_bytes = 0;
  algorithm how = algorithm::automatic;
  std::size_t chunk_bytes = 0;  ///< the longest message of an algorithm that cuts data into chunks
  std::string why;              ///< for display; not part of the plan's text and hash
};

/// The algorithm selection of a group: one algorithm and chunk for each operation and length.
///
/// The length is the bytes of one rank's data; for all_gather, reduce_scatter, gather, scatter and
/// all_to_all those of its "all" view.
///
/// @par Pins  `settings::plan` overrides any part, by pins with commas between them:
///
///   all_reduce=ring               always
///   all_reduce:64K-=ring/512K     from 64 KiB on, in chunks of at most 512 KiB
///   broadcast:4K-1M=tree          from 4 KiB to below 1 MiB
///   reduce_scatter:-64K=pairwise  below 64 KiB
///   all_gather=automatic/128K     the chunk only
///
/// A later pin wins over an earlier one.
class plan {
 public:
  /// @pre `rules` contains a rule from 0 bytes for every operation.
  explicit plan(std::vector<plan_rule> rules, facts known = {});
  /// Default rules for a group of unmeasured ranks, assumed to be on one host, with the pins
  /// applied.
  /// @par Errors `errc::bad_option`: which pin, why, and the nearest valid word.
  static plan standard(int ranks, const settings& options);
  /// Selects for every operation and length the algorithm and chunk with the least time predicted
  /// by the model in `src/plan/cost.hpp`, then applies the pins. Lengths are powers of two from 8
  /// bytes to 1 GiB; a rule extends to the next length as long as its prediction is within a
  /// fiftieth of the best.
  ///
  /// From probed facts, the order in which a reduction combines is chosen by the usual latencies
  /// and rates of the kinds of channel instead (`settings::reproducible`), so that every run on the
  /// same hosts gives the same bits; the probe chooses among algorithms of that order, and chunks.
  ///
  /// It computes with integers from `known`, which all ranks have exchanged, so rounding cannot
  /// make ranks disagree.
  /// @par Cost  Quadratic in the ranks: about 1 ms for 64, 1 s for 4096. @par Errors As `standard`.
  static plan of(const facts& known, const settings& options);

  const plan_rule& choose(collective what, std::size_t bytes) const noexcept;
  std::span<const plan_rule> rules() const noexcept { return rules_; }
  /// The facts that it was computed from.
  const facts& known() const noexcept { return known_; }

  /// One line for each host, then one for each rule: "all_reduce from 64K: ring, chunk 512K". Plans
  /// with the same text are equal.
  std::string text() const;
  /// CRC-32C of the text.
  std::uint32_t hash() const;

 private:
  std::vector<plan_rule> rules_;                           // by operation, then by length
  std::array<std::size_t, collective_count + 1> first_{};  // by operation: its first in rules_
  facts known_;
};

/// "ring, chunk 512K"; without the chunk if the algorithm has none.
std::string describe(const plan_rule& rule);
/// Whether the algorithm cuts messages into chunks.
bool has_chunks(collective what, algorithm how) noexcept;

}  // namespace tandem

#pragma GCC visibility pop
