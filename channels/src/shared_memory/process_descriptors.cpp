#include "shared_memory/process_descriptors.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

namespace tandem::shm {
namespace {

using detail::owned_descriptor;

/// Field 22 of /proc/N/stat; the second one, the program's name, may contain anything.
std::uint64_t start_of(std::uint32_t process) {
  std::ifstream in(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(in, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  std::uint64_t started = 0;
  fields >> started;
  return fields ? started : 0;
}

error refused(const process_number& of, const std::string& why) {
  return error(errc::unsupported_memory,
               fmt::format("descriptors of process {} cannot be copied: {}", of.number, why),
               "run all ranks of a host as one user, in one container that allows pidfd_getfd "
               "(Docker: --cap-add SYS_PTRACE)");
}

}  // namespace

process_number process_number::here() {
  const auto own = static_cast<std::uint32_t>(::getpid());
  return {own, start_of(own)};
}

std::vector<owned_descriptor> copy_descriptors(const process_number& of,
                                               std::span<const std::uint32_t> which) {
  const owned_descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, of.number, 0)));
  if (!process.is_open()) throw refused(of, detail::errno_text(errno));
  if (of.started == 0 || start_of(of.number) != of.started) {
    throw refused(of, "another process has its number here");
  }
  std::vector<owned_descriptor> made;
  for (const std::uint32_t each : which) {
    made.emplace_back(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), each, 0)));
    if (!made.back().is_open()) throw refused(of, detail::errno_text(errno));
  }
  return made;
}

}  // namespace tandem::shm
