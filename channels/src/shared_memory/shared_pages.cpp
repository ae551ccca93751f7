#include "shared_memory/shared_pages.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>
#include <utility>

#include "shared_memory/sealed_file.hpp"

namespace tandem::shm {
namespace {

error not_found_at(const shared_pages::location& of, const std::string& why) {
  return error(errc::unsupported_memory,
               fmt::format("shared memory of process {}: {}", of.process, why),
               "run all ranks of a host as one user, in one container");
}

}  // namespace

shared_pages::shared_pages(const char* name, std::size_t bytes, detail::inherited_as how)
    : file_(make_sealed_file(name, bytes)), bytes_(bytes) {
  if (!file_.is_open()) throw no_shared_memory(bytes, errno);
  map(population::eager, how);
}

/// The location may name any file that this process can open: validated before it is mapped.
shared_pages::shared_pages(const location& of, population when)
    : bytes_(static_cast<std::size_t>(of.bytes)) {
  const std::string path = fmt::format("/proc/{}/fd/{}", of.process, of.descriptor);
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) throw not_found_at(of, tandem::detail::errno_text(errno));
  if (!S_ISREG(about.st_mode) || about.st_ino != of.inode || about.st_uid != ::geteuid()) {
    throw not_found_at(of, "its descriptor is not that shared memory");
  }
  file_ = descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file_.is_open() && (errno == EMFILE || errno == ENFILE)) {
    throw no_shared_memory(of.bytes, errno);
  }
  if (!file_.is_open()) throw not_found_at(of, tandem::detail::errno_text(errno));
  const long long sealed = sealed_bytes(file_);
  if (::fstat(file_.get(), &about) != 0 || about.st_ino != of.inode || sealed <= 0 ||
      static_cast<std::uint64_t>(sealed) != of.bytes) {
    throw not_found_at(of, "its descriptor is not that shared memory");
  }
  map(when, detail::inherited_as::zeros);
  file_ = descriptor();
}

void shared_pages::map(population when, detail::inherited_as how) {
  base_ = map_file(file_, bytes_, when, how);
  if (base_ == nullptr) throw no_shared_memory(bytes_, errno);
}

shared_pages::~shared_pages() {
  unmap_file(base_, bytes_);
}

void shared_pages::discard() const noexcept {
  if (!origin_.is_here()) return;  // its parent's
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
              static_cast<off_t>(bytes_));
}

shared_pages::location shared_pages::where() const noexcept {
  struct stat about {};
  ::fstat(file_.get(), &about);
  return {static_cast<std::uint32_t>(::getpid()), static_cast<std::uint32_t>(file_.get()),
          about.st_ino, bytes_};
}

}  // namespace tandem::shm
