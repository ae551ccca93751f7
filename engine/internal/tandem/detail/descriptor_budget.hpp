#pragma once

#include <cstdint>
#include <string>
#include <tandem/detail/resources.hpp>

namespace tandem::detail {

/// File descriptors of a process: the kernel assigns the lowest free number below the soft limit.
struct descriptor_usage {
  limit max;               ///< RLIMIT_NOFILE
  std::uint64_t open = 0;  ///< descriptors in use below the soft limit
};
descriptor_usage read_descriptor_usage() noexcept;

/// Additional descriptors that a part of a job opens.
struct descriptor_need {
  std::string who;        ///< "rank 0 of 32 over shm"
  std::uint64_t min = 0;  ///< required
  std::uint64_t max = 0;  ///< peak, while all peers connect
  /// For short-lived use: name resolution, reading a file, an unauthenticated connection.
  static constexpr std::uint64_t spare = 4;
};

/// The decision for a need, without I/O.
struct descriptor_budget {
  bool is_enough = true;
  /// The new soft limit; 0: unchanged.
  std::uint64_t raised_soft = 0;

  static descriptor_budget of(const descriptor_need& need, const descriptor_usage& now) noexcept;
};

/// "raise the hard limit to ...": which limit to raise, and where it is set.
std::string how_to_raise_descriptors(std::uint64_t needed, const limit& now);
/// The error for a need that exceeds the limits. No I/O.
error too_few_descriptors(const descriptor_need& need, const descriptor_usage& now);

/// Ensures, before the first of them is opened, that the needed descriptors are available. If the
/// soft limit is too low for `max`, it is raised to just that, at most to the hard limit, and the
/// change is logged (info). A process that starts others can restore the old limit for them. For a
/// program that uses select(2), which supports only descriptors below 1024, prevent raising with
/// `ulimit -Hn 1024`.
/// @par Errors thrown  `errc::limit_exceeded`: how many are needed and available, which limit to
/// raise. Thread-safe.
void reserve_descriptors(const descriptor_need& need);

}  // namespace tandem::detail
