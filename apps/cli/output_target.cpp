#include "cli/output_target.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <tandem/detail/file_replacement.hpp>

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

constexpr int max_links = 40;                   // the kernel's limit
constexpr std::size_t max_stem = 200;           // of the 255 bytes of a name
constexpr mode_t default_mode = 0666;           // reduced by the umask
constexpr std::size_t max_old_bytes = 1 << 28;  // of a file that is overwritten

/// The number of "/proc/<this process>/fd/N"; -1 for any other path.
int descriptor_of_proc_path(const fs::path& folder, const std::string& name) {
  const std::string own = fmt::format("/proc/{}/", ::getpid());
  if (!folder.string().starts_with(own) || folder.filename() != "fd") return -1;
  int number = -1;
  const auto [rest, failed] = std::from_chars(name.data(), name.data() + name.size(), number);
  return failed == std::errc() && rest == name.data() + name.size() ? number : -1;
}

/// Copies owner and mode of the old file.
void copy_mode(const fs::path& from, int to) {
  struct stat old {};
  if (::stat(from.c_str(), &old) != 0) return;
  [[maybe_unused]] int ignored = ::fchown(to, old.st_uid, old.st_gid);
  ignored = ::fchmod(to, old.st_mode & 07777);
}

std::optional<std::string> content_of(const fs::path& file) {
  std::ifstream from(file, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(from), {}};
  if (!from || content.size() > max_old_bytes) return std::nullopt;
  return content;
}

int overwrite(int file, std::string_view content) {
  if (::lseek(file, 0, SEEK_SET) < 0) return errno;
  if (const int failed = detail::write_synced(file, content)) return failed;
  return ::ftruncate(file, static_cast<off_t>(content.size())) != 0 ? errno : 0;
}

/// Space is reserved first, so that a full disk leaves the old content; if a write fails
/// nevertheless, the old content is written back.
int overwrite_file(const fs::path& file, std::string_view content) {
  detail::owned_descriptor to(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (to.get() < 0) return errno;
  const auto bytes = static_cast<off_t>(content.size());
  if (bytes > 0 && ::fallocate(to.get(), FALLOC_FL_KEEP_SIZE, 0, bytes) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    return errno;
  }
  const std::optional<std::string> old = content_of(file);
  const int failed = overwrite(to.get(), content);
  if (failed != 0 && old) overwrite(to.get(), *old);
  return failed != 0 ? failed : to.close();
}

int replace_file(const fs::path& file, std::string_view content) {
  detail::file_replacement made(file, default_mode);
  if (made.failure() != 0) return made.failure();
  copy_mode(file, made.descriptor());
  if (const int failed = made.write(content)) return failed;
  const int failed = made.commit();
  // A file that is a mount point, as in containers, cannot be renamed over.
  return failed == EBUSY ? overwrite_file(file, content) : failed;
}

/// Fails for a pipe without a reader instead of blocking.
int open_special(const fs::path& file) noexcept {
  const int opened = ::open(file.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (opened >= 0) ::fcntl(opened, F_SETFL, ::fcntl(opened, F_GETFL) & ~O_NONBLOCK);
  return opened;
}

int classify(output_target& target) {
  struct stat found {};
  using kind = output_target::kind;
  const bool exists = ::stat(target.file.c_str(), &found) == 0;
  if (!exists && errno != ENOENT) return errno;
  if (!exists) return 0;
  if (S_ISDIR(found.st_mode)) return EISDIR;
  if (::access(target.file.c_str(), W_OK) != 0) return errno;
  if (!S_ISREG(found.st_mode)) {
    target.what = kind::special;
  } else if (::access(target.file.parent_path().c_str(), W_OK | X_OK) != 0) {
    target.what = kind::in_place;
  }
  return 0;
}

}  // namespace

int output_target::find(const fs::path& path, output_target& result) {
  if (!path.has_filename()) return EISDIR;
  fs::path at = path;
  for (int links = 0; links < max_links; ++links) {
    std::error_code failed;
    const fs::path folder = fs::canonical(at.has_parent_path() ? at.parent_path() : ".", failed);
    if (failed) return failed.value();
    result.descriptor = descriptor_of_proc_path(folder, at.filename().string());
    if (result.descriptor >= 0) {
      result.what = kind::descriptor;
      return 0;
    }
    result.file = folder / at.filename();
    if (!fs::is_symlink(result.file, failed)) return classify(result);
    at = folder / fs::read_symlink(result.file, failed);
    if (failed) return failed.value();
  }
  return ELOOP;
}

int output_target::probe(std::size_t bytes) const {
  if (what == kind::special) return 0;
  if (what == kind::descriptor) {
    const int flags = ::fcntl(descriptor, F_GETFL);
    if (flags < 0) return errno;
    return (flags & O_ACCMODE) == O_RDONLY ? EBADF : 0;
  }
  if (what == kind::in_place) {
    detail::owned_descriptor to(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
    return to.get() < 0 ? errno : to.close();
  }
  detail::file_replacement made(file, default_mode);
  if (made.failure() != 0) return made.failure();
  const int failed = made.write(std::string(bytes, '\0'));
  return failed != 0 ? failed : made.close();
}

int output_target::replace(std::string_view content) const {
  switch (what) {
    case kind::replaced:
      return replace_file(file, content);
    case kind::in_place:
      return overwrite_file(file, content);
    case kind::descriptor:
      return detail::write_synced(descriptor, content);
    case kind::special: {
      detail::owned_descriptor to(open_special(file));
      if (to.get() < 0) return errno;
      const int failed = detail::write_all(to.get(), content);
      return failed != 0 ? failed : to.close();
    }
  }
  return EINVAL;
}

bool output_target::is_replaced_whole() const noexcept {
  return what == kind::replaced || what == kind::in_place;
}

int output_target::open_stream() const {
  if (what == kind::descriptor) return ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (what == kind::special) return open_special(file);
  if (what == kind::in_place) return ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::unlink(part().c_str());  // of a run that was killed
  return ::open(part().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, default_mode);
}

fs::path output_target::part() const {
  return fs::path(file) += ".part";
}

fs::path write_new_file(const fs::path& folder, const std::string& name, std::string_view content,
                        int& failed) {
  const fs::path made = folder / fmt::format("tandem-{}-{}", ::getpid(), name.substr(0, max_stem));
  detail::owned_descriptor to(::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  failed = to.get() < 0 ? errno : detail::write_synced(to.get(), content);
  if (failed == 0) failed = to.close();
  if (failed == 0) return made;
  if (failed != EEXIST) ::unlink(made.c_str());
  return {};
}

}  // namespace tandem::cli
