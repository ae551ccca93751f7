#include "transports/rails/verbs/memlock.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>
#include <tandem/detail/resources.hpp>
#include <tandem/settings.hpp>

namespace tandem::verbs {
namespace {

constexpr std::uint64_t kilo = 1024, mega = kilo * kilo;

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  return a > unlimited - b ? unlimited : a + b;
}

/// Up to a whole MiB, with a margin for what the library itself locks.
std::uint64_t round_up(std::uint64_t bytes) {
  return bytes > unlimited - 2 * mega ? unlimited : (bytes / mega + 2) * mega;
}

std::string limit_text(std::uint64_t bytes) {
  return bytes == unlimited ? "unlimited" : format_bytes(bytes);
}

std::string how_to_raise(std::uint64_t min_bytes, const memlock_limit& limit) {
  const bool by_itself = limit.hard_bytes >= min_bytes;
  return fmt::format(
      "raise it: ulimit -l {}{}, or \"* - memlock unlimited\" in a file of "
      "/etc/security/limits.d and a new login, LimitMEMLOCK=infinity in a systemd unit, docker run "
      "--ulimit memlock=-1",
      min_bytes == unlimited ? "unlimited" : std::to_string(min_bytes / kilo),
      by_itself ? ""
                : fmt::format(" (as root: the hard limit is {})", limit_text(limit.hard_bytes)));
}

}  // namespace

memlock_limit read_memlock() noexcept {
  rlimit found{};
  if (::getrlimit(RLIMIT_MEMLOCK, &found) != 0) return {};
  const auto bytes = [](rlim_t value) {
    return value == RLIM_INFINITY ? unlimited : static_cast<std::uint64_t>(value);
  };
  return {bytes(found.rlim_cur), bytes(found.rlim_max)};
}

error registration_error(std::string_view device, std::uint64_t wanted_bytes,
                         std::uint64_t registered_bytes, int failure, const memlock_limit& limit) {
  std::string detail = fmt::format("{}: {} of memory cannot be registered: {}", device,
                                   format_bytes(wanted_bytes), detail::errno_text(failure));
  if (failure != ENOMEM && failure != EAGAIN) {
    return error(errc::unsupported_memory, std::move(detail),
                 "this memory is not mapped, may not be written, or is of a kind that the device "
                 "cannot reach");
  }
  const std::uint64_t needed = sum(wanted_bytes, registered_bytes);
  if (limit.soft_bytes >= needed) {
    detail += fmt::format("; the limit of locked memory (RLIMIT_MEMLOCK) is {}, which is enough",
                          limit_text(limit.soft_bytes));
    return error(errc::limit_exceeded, std::move(detail),
                 "this machine is out of memory, or the device out of registrations (max_mr of "
                 "ibv_devinfo -v)");
  }
  const std::uint64_t min_bytes = round_up(needed);
  detail += fmt::format("; the limit of locked memory (RLIMIT_MEMLOCK) is {}",
                        limit_text(limit.soft_bytes));
  if (registered_bytes != 0) {
    detail += fmt::format(", {} are registered already", format_bytes(registered_bytes));
  }
  detail += fmt::format(", it should be at least {}", limit_text(min_bytes));
  return error(errc::limit_exceeded, std::move(detail), how_to_raise(min_bytes, limit));
}

}  // namespace tandem::verbs
