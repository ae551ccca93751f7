#pragma once

#include <boost/system/system_error.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tandem/error.hpp>

namespace tandem::detail {

/// What a call asks the system for. One errno means different things to different calls: EAGAIN of
/// a read says "later", EAGAIN of fork says that there is no process left.
enum class resource : std::uint8_t {
  descriptor,  ///< accept, socket, pipe, eventfd, open
  process,     ///< fork, posix_spawn, and a thread's start
  memory,      ///< mmap, and a file without a name (memfd) with its pages
  file         ///< bytes in a file on disk
};

/// Does this errno, of a call that asks for `wanted`, say that it ran out? Every call may be short
/// of descriptors (EMFILE, ENFILE).
bool is_exhausted(int code, resource wanted) noexcept;
/// The same of an error code, of the system's category.
bool is_exhausted(const error_code& code, resource wanted) noexcept;

/// Of a limit that a process has; `unlimited` where there is none.
constexpr std::uint64_t unlimited = ~std::uint64_t{0};
struct limit {
  std::uint64_t soft = unlimited;
  std::uint64_t hard = unlimited;
};
/// @param which  RLIMIT_...
limit read_limit(int which) noexcept;
/// "4096", "unlimited".
std::string limit_text(std::uint64_t value);

/// What an exhausted resource is described with.
struct resource_usage {
  limit descriptors;                    ///< RLIMIT_NOFILE
  std::uint64_t open_descriptors = 0;   ///< of those that count against the soft limit
  std::uint64_t host_files = 0;         ///< fs.file-max; 0: unknown
  limit processes;                      ///< RLIMIT_NPROC
  std::uint64_t cgroup_pids = 0;        ///< in this cgroup or the fullest above it
  std::uint64_t cgroup_pids_max = 0;    ///< pids.max of that; 0: none
  limit address_space;                  ///< RLIMIT_AS
  limit file_bytes;                     ///< RLIMIT_FSIZE, which memfd obeys too
  std::uint64_t cgroup_memory_max = 0;  ///< memory.max; 0: none
};

/// Of this process, now. Needs no free descriptor to count them.
resource_usage read_usage();

/// `errc::limit_exceeded`: `what` could not be done, the resource, its limit, how much of it is in
/// use, and what to raise. No I/O. @pre `is_exhausted(code, wanted)`
error describe_exhausted(int code, resource wanted, const std::string& what,
                         const resource_usage& now);
/// The same with the usage of this process.
error exhausted(int code, resource wanted, const std::string& what);
/// That error where `code` says that `wanted` ran out; else the code itself, with `what` and the
/// system's words for it.
error system_failure(int code, resource wanted, const std::string& what);

/// What the system calls an errno and, where `wanted` ran out, the limit and what to raise.
std::string failure_text(int code, resource wanted);

/// The words of `exhausted` for an exception that names no resource: EMFILE and ENFILE, which mean
/// the same whichever call they come from, and a thread that Asio could not start. Empty for
/// anything else.
std::optional<error> find_exhausted(const boost::system::system_error& failure);

/// Does work that starts threads. @par Errors thrown  What `work` throws; `errc::limit_exceeded`
/// where no thread could be started. @param what  "no thread for ..."
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
