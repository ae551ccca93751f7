#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// The way of a message between two ranks. Whole numbers, so that what follows from them is the
/// same on every machine, whatever its compiler made of it.
struct path_facts {
  std::string channel = "local";       ///< what carries it: "shm", "tcp", "rails"
  std::size_t rails = 0;               ///< NICs that it is spread over; 0: the channel knows none
  std::uint64_t latency_ns = 5'000;    ///< of a few bytes, one way
  std::uint64_t bytes_per_us = 2'000;  ///< of long messages, one way; 1000 is 1 GB/s

  bool operator==(const path_facts&) const = default;

  /// Its lines of a profile, of the way of that name: "within" or "across".
  std::string text(std::string_view name) const;
};

/// What a plan is made from: who shares a host, and how fast messages go inside one and across.
///
/// Inside a host every rank has the whole rate for itself while there are cores. Across, all ranks
/// of a host share the one link that it has to the others.
struct facts {
  std::vector<std::string> host_of_rank;
  path_facts within;
  path_facts across;
  /// What collectives work on lies in the memory of devices: copy engines move it and kernels
  /// combine it, so no cores are shared, and long pieces are worth most.
  bool on_devices = false;
  std::uint64_t combine_bytes_per_us = 10'000;  ///< of elements combined by one core, or a device
  std::uint64_t combine_latency_ns = 0;         ///< of a combination, beside its bytes
  /// That the ranks of one host share, of the host that has the fewest; 0: each has one.
  std::uint64_t cores = 0;

  /// All ranks share a `board`, which is none of what a profile tells.
  bool has_board = false;

  bool operator==(const facts&) const = default;

  /// Nothing is known but the number of ranks: one host, and the defaults above, which are those of
  /// loopback TCP on a processor of 2020.
  static facts one_host(int ranks);
  /// From here on what is known of combining is a device's: 1 TB/s, and 15 us for a kernel that is
  /// begun and waited for (of an all_reduce between two H200).
  void lie_on_devices() noexcept;
  /// Of these ranks alone, in this order, which have no board of their own. @pre each is one of
  /// `host_of_rank`.
  facts of(std::span<const int> ranks) const;

  /// Lines "within.latency_ns 4800": what `parse` reads, and a profile file holds.
  std::string text() const;
  /// Reads `text()`; empty lines, what follows #, and the order of lines but those of hosts do not
  /// matter; of several lines of cores the least counts, and one of memory that says device. What
  /// is not there keeps its default.
  /// @par Errors `errc::bad_input`: the number of the line, what is wrong, and the nearest right
  /// word.
  static facts parse(std::string_view text);
  /// The same from a file. @par Errors those of `parse`; `errc::bad_input`: it cannot be read.
  static facts load(const std::string& file);
};

}  // namespace tandem
