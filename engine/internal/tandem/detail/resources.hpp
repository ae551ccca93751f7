#pragma once

#include <boost/system/system_error.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tandem/error.hpp>

namespace tandem::detail {

/// What an errno means, without its name: "Permission denied".
std::string errno_text(int code);

/// The system resource that a call requests. The meaning of an errno depends on the call: EAGAIN of
/// read means "later", EAGAIN of fork means that the process limit is reached.
enum class resource : std::uint8_t {
  descriptor,  ///< accept, socket, pipe, eventfd, open
  process,     ///< fork, posix_spawn, thread creation
  memory,      ///< mmap, memfd and its pages
  file         ///< bytes in a file on disk
};

/// True if this errno of a call that requests `wanted` means that the resource is exhausted. Every
/// call can run out of descriptors (EMFILE, ENFILE).
bool is_exhausted(int code, resource wanted) noexcept;
/// The same for an error code of the system category.
bool is_exhausted(const error_code& code, resource wanted) noexcept;

/// A resource limit of a process; `unlimited` if there is none.
constexpr std::uint64_t unlimited = ~std::uint64_t{0};
struct limit {
  std::uint64_t soft = unlimited;
  std::uint64_t hard = unlimited;
};
/// @param which  RLIMIT_...
limit read_limit(int which) noexcept;
/// "4096", "unlimited".
std::string limit_text(std::uint64_t value);

/// Limits and usage, for the description of an exhausted resource.
struct resource_usage {
  limit descriptors;                    ///< RLIMIT_NOFILE
  std::uint64_t open_descriptors = 0;   ///< those below the soft limit
  std::uint64_t host_files = 0;         ///< fs.file-max; 0: unknown
  limit processes;                      ///< RLIMIT_NPROC
  std::uint64_t cgroup_pids = 0;        ///< in this cgroup or its fullest ancestor
  std::uint64_t cgroup_pids_max = 0;    ///< pids.max of that; 0: none
  limit address_space;                  ///< RLIMIT_AS
  limit file_bytes;                     ///< RLIMIT_FSIZE, which applies to memfd too
  std::uint64_t cgroup_memory_max = 0;  ///< memory.max; 0: none
};

/// Current usage of this process. Works even without a free descriptor.
resource_usage read_usage();

/// `errc::limit_exceeded`: what failed, the resource, its limit and usage, and what to raise. No
/// I/O. @pre `is_exhausted(code, wanted)`
error describe_exhausted(int code, resource wanted, const std::string& what,
                         const resource_usage& now);
/// The same with the usage of this process.
error exhausted(int code, resource wanted, const std::string& what);
/// That error if `code` means that `wanted` is exhausted; else the code itself, with `what` and the
/// system's message.
error system_failure(int code, resource wanted, const std::string& what);

/// The system's message for an errno and, if `wanted` is exhausted, the limit and what to raise.
std::string failure_text(int code, resource wanted);

/// The error of `exhausted` for an exception that names no resource: EMFILE and ENFILE, which mean
/// the same for every call, and a thread that Asio could not start. Empty for anything else.
std::optional<error> find_exhausted(const boost::system::system_error& failure);

/// Runs `work`, which starts threads. @par Errors thrown  What `work` throws;
/// `errc::limit_exceeded` if no thread could be started. @param what  "no thread for ..."
template <class Work>
auto start_threads(std::string_view what, Work work) {
  const auto code_of = [what](const auto& failure) {
    const int code = failure.code().value();
    if (is_exhausted(code, resource::process)) {
      throw exhausted(code, resource::process, std::string(what));
    }
  };
  try {
    return work();
  } catch (const std::system_error& failure) {
    code_of(failure);
    throw;
  } catch (const error&) {
    throw;
  } catch (const boost::system::system_error& failure) {
    code_of(failure);
    throw;
  }
}

}  // namespace tandem::detail
