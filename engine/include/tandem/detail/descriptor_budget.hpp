#pragma once

#include <cstdint>
#include <string>
#include <tandem/detail/resources.hpp>

namespace tandem::detail {

/// File descriptors of a process: the kernel gives a new one the lowest free number below the soft
/// limit.
struct descriptor_usage {
  limit most;              ///< RLIMIT_NOFILE
  std::uint64_t open = 0;  ///< numbers below the soft limit that are taken
};
descriptor_usage read_descriptor_usage() noexcept;

/// How many more a part of a job opens.
struct descriptor_need {
  std::string who;          ///< "rank 0 of 32 over shm"
  std::uint64_t least = 0;  ///< it cannot do its work with fewer
  std::uint64_t most = 0;   ///< at once, while all peers connect
  /// Taken for the moment by what is short: a name looked up, a file read, a stranger's connection.
  static constexpr std::uint64_t spare = 4;
};

/// What becomes of a need, without I/O.
struct descriptor_budget {
  bool is_enough = true;
  /// What the soft limit should become; 0: it stays.
  std::uint64_t raised_soft = 0;

  static descriptor_budget of(const descriptor_need& need, const descriptor_usage& now) noexcept;
};

/// "raise the hard limit to ...": which limit, and where it is set.
std::string how_to_raise_descriptors(std::uint64_t needed, const limit& now);
/// The error of a need that cannot be met. No I/O.
error too_few_descriptors(const descriptor_need& need, const descriptor_usage& now);

/// Sees to it before the first of them is opened that so many more can be. Only where the soft
/// limit is too low for `most` it is raised, no further than that and never beyond the hard limit,
/// and logged (info): the job could not run otherwise. Who starts processes may give them the limit
/// it had. A program that uses select(2), which knows descriptors below 1024 only, should raise no
/// limit and see none raised: `ulimit -Hn 1024`.
/// @par Errors thrown  `errc::limit_exceeded`: how many are needed, how many there are, which limit
/// to raise. Thread-safe.
void reserve_descriptors(const descriptor_need& need);

}  // namespace tandem::detail
