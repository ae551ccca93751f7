#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

  bool operator==(const facts&) const = default;

  /// Facts for that many ranks on one host with the defaults above, which are those of loopback TCP
  /// on a processor of 2020.
  static facts one_host(int ranks);
  /// Sets `on_devices` and the cost of combining on a device: 1 TB/s, and 15 us to launch a kernel
  /// and wait for it (from an all_reduce between two H200).
  void lie_on_devices() noexcept;
  /// The facts of these ranks only, in this order and without a board. @pre each is an index into
  /// `host_of_rank`.
  facts of(std::span<const int> ranks) const;

  /// Lines such as "within.latency_ns 4800", the format of profile files, which `parse` reads.
  std::string text() const;
  /// Reads the format of `text()`. Empty lines and text after # are ignored; only the order of host
  /// lines matters. Of several cores lines the lowest value counts; one memory line with "device"
  /// is enough. Missing keys keep their defaults.
  /// @par Errors `errc::bad_input`: the line number, what is wrong, and the nearest valid key.
  static facts parse(std::string_view text);
  /// Reads a profile file. @par Errors those of `parse`; `errc::bad_input`: it cannot be read.
  static facts load(const std::string& file);
};

}  // namespace tandem
