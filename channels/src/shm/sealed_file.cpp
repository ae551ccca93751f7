#include "shm/sealed_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <tandem/detail/resources.hpp>

namespace tandem::shm {
namespace {

constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// The kernel does not overcommit (vm.overcommit_memory is 2). Elsewhere, running out of pages of
/// an anonymous file at the first touch invokes the OOM killer.
bool has_strict_accounting() noexcept {
  const descriptor from(::open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
  char mode = '0';
  return from.is_open() && ::read(from.get(), &mode, 1) == 1 && mode == '2';
}

/// Growing a file beyond RLIMIT_FSIZE would kill the process with SIGXFSZ.
bool may_be_so_large(std::size_t bytes) noexcept {
  if (tandem::detail::read_limit(RLIMIT_FSIZE).soft >= bytes) return true;
  errno = EFBIG;
  return false;
}

/// With strict accounting a missing page would be a SIGBUS at the first touch, so all pages are
/// allocated here.
bool set_size(const descriptor& file, std::size_t bytes) noexcept {
  static const bool is_strict = has_strict_accounting();
  const auto length = static_cast<off_t>(bytes);
  if (!may_be_so_large(bytes) || ::ftruncate(file.get(), length) != 0) return false;
  return !is_strict || ::fallocate(file.get(), 0, 0, length) == 0;
}

}  // namespace

descriptor make_sealed_file(const char* name, std::size_t bytes) noexcept {
  descriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open()) return {};
  if (set_size(file, bytes) && ::fcntl(file.get(), F_ADD_SEALS, size_seals) == 0) return file;
  const int why = errno;
  file = descriptor();
  errno = why;
  return {};
}

long long sealed_bytes(const descriptor& of) noexcept {
  struct stat about {};
  const int seals = of.is_open() ? ::fcntl(of.get(), F_GET_SEALS) : -1;
  const bool is_sealed = seals >= 0 && (seals & size_seals) == size_seals;
  return is_sealed && ::fstat(of.get(), &about) == 0 ? about.st_size : -1;
}

error no_shared_memory(std::uint64_t bytes, int code) {
  using tandem::detail::resource;
  const std::string what = fmt::format("cannot allocate {} bytes of shared memory", bytes);
  if (tandem::detail::is_exhausted(code, resource::memory)) {
    return tandem::detail::exhausted(code, resource::memory, what);
  }
  return error(errc::limit_exceeded, fmt::format("{}: {}", what, system_word(code)),
               "anonymous shared memory (memfd_create) must be allowed");
}

std::string system_word(int code) {
  return error_code(code, boost::system::system_category()).message();
}

}  // namespace tandem::shm
