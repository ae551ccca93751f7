#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <tandem/detail/descriptor_budget.hpp>
#include <tandem/log.hpp>

namespace tandem::detail {
namespace {

/// Upper bound of the descriptors probed one by one if /proc cannot be read.
constexpr std::uint64_t max_probed = 65536;

std::uint64_t sum(std::uint64_t a, std::uint64_t b) noexcept {
  return a > unlimited - b ? unlimited : a + b;
}

std::uint64_t probe_each(std::uint64_t below) noexcept {
  std::uint64_t open = 0;
  for (std::uint64_t fd = 0; fd < std::min(below, max_probed); ++fd) {
    if (::fcntl(static_cast<int>(fd), F_GETFD) >= 0) ++open;
  }
  return open;
}

std::uint64_t count_open(std::uint64_t below) noexcept {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return probe_each(below);
  const auto own = static_cast<std::uint64_t>(::dirfd(folder));
  std::uint64_t open = 0;
  while (const dirent* const entry = ::readdir(folder)) {
    char* end = nullptr;
    const std::uint64_t fd = std::strtoull(entry->d_name, &end, 10);
    if (end != entry->d_name && fd < below && fd != own) ++open;
  }
  ::closedir(folder);
  return open;
}

}  // namespace

descriptor_usage read_descriptor_usage() noexcept {
  descriptor_usage now;
  now.max = read_limit(RLIMIT_NOFILE);
  now.open = count_open(now.max.soft);
  return now;
}

descriptor_budget descriptor_budget::of(const descriptor_need& need,
                                        const descriptor_usage& now) noexcept {
  descriptor_budget made;
  const std::uint64_t wanted =
      sum(sum(now.open, std::max(need.min, need.max)), descriptor_need::spare);
  if (wanted > now.max.soft) {
    const std::uint64_t reachable = std::min(wanted, now.max.hard);
    if (reachable > now.max.soft) made.raised_soft = reachable;
  }
  const std::uint64_t needed = sum(sum(now.open, need.min), descriptor_need::spare);
  made.is_enough = needed <= std::max(now.max.soft, made.raised_soft);
  return made;
}

std::string how_to_raise_descriptors(std::uint64_t needed, const limit& now) {
  if (now.hard >= needed && now.soft < needed) {
    return fmt::format("raise the soft limit: ulimit -n {}, LimitNOFILE= of a systemd unit",
                       needed);
  }
  return fmt::format(
      "raise the hard limit to at least {0}: ulimit -n {0} as root, nofile in "
      "/etc/security/limits.conf and a new login, LimitNOFILE= of a systemd unit, docker run "
      "--ulimit nofile={0}",
      needed);
}

error too_few_descriptors(const descriptor_need& need, const descriptor_usage& now) {
  const std::uint64_t needed = now.open + need.min + descriptor_need::spare;
  return error(
      errc::limit_exceeded,
      fmt::format("{} needs {} file descriptors, {} in all with the {} that this process "
                  "has open, and may have {} (RLIMIT_NOFILE: soft limit {}, hard limit {})",
                  need.who, need.min + descriptor_need::spare, needed, now.open,
                  limit_text(std::max(now.max.soft, now.max.hard)), limit_text(now.max.soft),
                  limit_text(now.max.hard)),
      how_to_raise_descriptors(needed, now.max));
}

void reserve_descriptors(const descriptor_need& need) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  descriptor_usage now = read_descriptor_usage();
  descriptor_budget budget = descriptor_budget::of(need, now);
  if (budget.is_enough && budget.raised_soft != 0) {
    rlimit raised{};
    ::getrlimit(RLIMIT_NOFILE, &raised);
    raised.rlim_cur = static_cast<rlim_t>(budget.raised_soft);
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) {
      log(log_level::info, "limits",
          fmt::format("{} needs up to {} file descriptors in addition to the {} open ones: the "
                      "soft limit (RLIMIT_NOFILE) is raised from {} to {}",
                      need.who, need.max, now.open, limit_text(now.max.soft),
                      limit_text(budget.raised_soft)));
      return;
    }
    // A sandbox may forbid raising it: the soft limit is final then.
    now.max.hard = now.max.soft;
    budget = descriptor_budget::of(need, now);
  }
  if (!budget.is_enough) throw too_few_descriptors(need, now);
}

}  // namespace tandem::detail
