#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <tandem/detail/descriptor_budget.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/settings.hpp>

namespace tandem::detail {
namespace {

/// The number in the first line of a file of /proc or /sys; 0 for "max" or if there is none.
std::uint64_t read_number(const std::string& path) {
  std::uint64_t value = 0;
  std::ifstream from(path);
  return from >> value ? value : 0;
}

/// The folder of this process's cgroup (version 2); empty if there is none.
std::string cgroup_folder() {
  std::ifstream from("/proc/self/cgroup");
  for (std::string line; std::getline(from, line);) {
    if (line.starts_with("0::/")) return "/sys/fs/cgroup" + line.substr(3);
  }
  return {};
}

/// Limits of a cgroup apply to its descendants: the one with the least left fails first.
void read_cgroups(resource_usage& into) {
  std::string folder = cgroup_folder();
  while (folder.size() >= std::string_view("/sys/fs/cgroup").size()) {
    const std::uint64_t pids_max = read_number(folder + "/pids.max");
    const std::uint64_t here = read_number(folder + "/pids.current");
    const bool is_fuller =
        into.cgroup_pids_max == 0 || pids_max < here + into.cgroup_pids_max - into.cgroup_pids;
    if (pids_max != 0 && is_fuller) {
      into.cgroup_pids = here;
      into.cgroup_pids_max = pids_max;
    }
    const std::uint64_t memory = read_number(folder + "/memory.max");
    if (memory != 0 && (into.cgroup_memory_max == 0 || memory < into.cgroup_memory_max)) {
      into.cgroup_memory_max = memory;
    }
    folder.erase(folder.rfind('/'));
  }
}

struct explanation {
  std::string detail;
  std::string advice;
};

explanation of_descriptors(int code, const resource_usage& now) {
  if (code == ENFILE) {
    return {fmt::format("the host is out of open files{}",
                        now.host_files > 0 ? fmt::format(" (fs.file-max: {})", now.host_files)
                                           : std::string()),
            "raise it for all processes: sysctl fs.file-max"};
  }
  if (code == ETOOMANYREFS) {
    return {fmt::format("too many file descriptors of this user are in flight between processes "
                        "(RLIMIT_NOFILE: {}, hard limit {})",
                        limit_text(now.descriptors.soft), limit_text(now.descriptors.hard)),
            how_to_raise_descriptors(2 * now.descriptors.soft, now.descriptors)};
  }
  return {fmt::format("this process is out of file descriptors (RLIMIT_NOFILE: {} of {} in use, "
                      "hard limit {})",
                      now.open_descriptors, limit_text(now.descriptors.soft),
                      limit_text(now.descriptors.hard)),
          how_to_raise_descriptors(now.open_descriptors + 1, now.descriptors)};
}

explanation of_processes(const resource_usage& now) {
  if (now.cgroup_pids_max != 0 && now.cgroup_pids + 1 >= now.cgroup_pids_max) {
    return {fmt::format("the cgroup is out of processes and threads (pids.max: {} of {} in use)",
                        now.cgroup_pids, now.cgroup_pids_max),
            "raise it: docker run --pids-limit, TasksMax= of a systemd unit"};
  }
  if (now.processes.soft != unlimited) {
    return {fmt::format("this user is out of processes and threads (RLIMIT_NPROC: {}, hard limit "
                        "{})",
                        limit_text(now.processes.soft), limit_text(now.processes.hard)),
            "raise it: ulimit -u, nproc in /etc/security/limits.conf, LimitNPROC= of a systemd "
            "unit"};
  }
  return {"the host is out of processes and threads, or of memory for their stacks",
          "check sysctl kernel.threads-max, kernel.pid_max and vm.max_map_count"};
}

explanation of_file_size(const resource_usage& now) {
  return {fmt::format("it exceeds the maximum file size of this process (RLIMIT_FSIZE: {} bytes, "
                      "hard limit {})",
                      limit_text(now.file_bytes.soft), limit_text(now.file_bytes.hard)),
          "raise it: ulimit -f unlimited, LimitFSIZE= of a systemd unit"};
}

explanation of_memory(int code, const resource_usage& now) {
  if (code == EFBIG) return of_file_size(now);
  if (now.address_space.soft != unlimited) {
    return {fmt::format("{} (RLIMIT_AS: {} bytes, hard limit {})", errno_text(code),
                        limit_text(now.address_space.soft), limit_text(now.address_space.hard)),
            "raise the limit of address space: ulimit -v unlimited"};
  }
  if (now.cgroup_memory_max != 0) {
    return {fmt::format("{} (memory.max of the cgroup: {})", errno_text(code),
                        format_bytes(now.cgroup_memory_max)),
            "allow more memory: docker run --memory, MemoryMax= of a systemd unit"};
  }
  return {fmt::format("{}: the host is out of memory or of mappings", errno_text(code)),
          "free memory, or check sysctl vm.max_map_count and vm.overcommit_memory"};
}

explanation of_file(int code, const resource_usage& now) {
  if (code == EFBIG) return of_file_size(now);
  if (code == EDQUOT) {
    return {"this user's disk quota is used up", "free space, or raise the quota: see quota -s"};
  }
  return {"its file system is full", "free space there (df -h, df -i), or choose another path"};
}

explanation explain(int code, resource wanted, const resource_usage& now) {
  if (code == EMFILE || code == ENFILE || code == ETOOMANYREFS) return of_descriptors(code, now);
  switch (wanted) {
    case resource::process:
      return code == EAGAIN ? of_processes(now) : of_memory(code, now);
    case resource::file:
      return of_file(code, now);
    default:
      return of_memory(code, now);
  }
}

}  // namespace

limit read_limit(int which) noexcept {
  rlimit found{};
  if (::getrlimit(static_cast<__rlimit_resource>(which), &found) != 0) return {};
  const auto value = [](rlim_t of) {
    return of == RLIM_INFINITY ? unlimited : static_cast<std::uint64_t>(of);
  };
  return {value(found.rlim_cur), value(found.rlim_max)};
}

std::string limit_text(std::uint64_t value) {
  return value == unlimited ? "unlimited" : std::to_string(value);
}

std::string errno_text(int code) {
  return error_code(code, boost::system::system_category()).message();
}

bool is_exhausted(int code, resource wanted) noexcept {
  if (code == EMFILE || code == ENFILE) return true;
  switch (wanted) {
    case resource::descriptor:
      return code == ENOBUFS || code == ENOMEM || code == ETOOMANYREFS;
    case resource::process:
      return code == EAGAIN || code == ENOMEM;
    case resource::memory:
      return code == ENOMEM || code == ENOSPC || code == EFBIG;
    case resource::file:
      return code == ENOSPC || code == EDQUOT || code == EFBIG;
  }
  return false;
}

bool is_exhausted(const error_code& code, resource wanted) noexcept {
  return code.category() == boost::system::system_category() && is_exhausted(code.value(), wanted);
}

resource_usage read_usage() {
  const descriptor_usage open = read_descriptor_usage();
  resource_usage now;
  now.descriptors = open.max;
  now.open_descriptors = open.open;
  now.host_files = read_number("/proc/sys/fs/file-max");
  now.processes = read_limit(RLIMIT_NPROC);
  now.address_space = read_limit(RLIMIT_AS);
  now.file_bytes = read_limit(RLIMIT_FSIZE);
  read_cgroups(now);
  return now;
}

error describe_exhausted(int code, resource wanted, const std::string& what,
                         const resource_usage& now) {
  explanation found = explain(code, wanted, now);
  return error(errc::limit_exceeded, fmt::format("{}: {}", what, found.detail),
               std::move(found.advice));
}

error exhausted(int code, resource wanted, const std::string& what) {
  return describe_exhausted(code, wanted, what, read_usage());
}

std::string failure_text(int code, resource wanted) {
  if (!is_exhausted(code, wanted)) return errno_text(code);
  const explanation found = explain(code, wanted, read_usage());
  return fmt::format("{}: {}; {}", errno_text(code), found.detail, found.advice);
}

error system_failure(int code, resource wanted, const std::string& what) {
  if (is_exhausted(code, wanted)) return exhausted(code, wanted, what);
  error_context context;
  context.detail = fmt::format("{}: {}", what, errno_text(code));
  return error(error_code(code, boost::system::system_category()), std::move(context));
}

std::optional<error> find_exhausted(const boost::system::system_error& failure) {
  const int code = failure.code().value();
  if (failure.code().category() != boost::system::system_category()) return std::nullopt;
  const std::string text = failure.what();
  const std::string call = text.substr(0, text.find(':'));
  if (code == EMFILE || code == ENFILE) return exhausted(code, resource::descriptor, call);
  if (code == EAGAIN && call == "thread") {
    return exhausted(code, resource::process, "no thread could be started");
  }
  return std::nullopt;
}

}  // namespace tandem::detail
