#include "cli/output_target.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <random>

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

constexpr int max_links = 40;          // the kernel's limit
constexpr std::size_t max_stem = 200;  // of the 255 bytes of a name
constexpr mode_t default_mode = 0666;  // reduced by the umask

/// An owned descriptor. `close` returns errors: network file systems report write errors there.
class open_file {
 public:
  explicit open_file(int descriptor) noexcept : descriptor_(descriptor) {}
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() { close(); }
  int get() const noexcept { return descriptor_; }
  int close() noexcept {
    const int closing = std::exchange(descriptor_, -1);
    return closing >= 0 && ::close(closing) != 0 && errno != EINTR ? errno : 0;
  }

 private:
  int descriptor_;
};

/// Writes all of `content` and syncs it to disk. Pipes do not support fsync (EINVAL).
int write_synced(int to, std::string_view content) noexcept {
  if (const int failed = write_all(to, content)) return failed;
  return ::fsync(to) != 0 && errno != EINVAL && errno != EROFS ? errno : 0;
}

/// Creates a hidden file in the folder of `file`; -1 with errno.
int create_temporary(const fs::path& file, fs::path& made) {
  std::random_device random;
  for (int i = 0; i < 100; ++i) {
    made = file.parent_path() /
           fmt::format(".{}.{:08x}", file.filename().string().substr(0, max_stem), random());
    const int created = ::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, default_mode);
    if (created >= 0 || errno != EEXIST) return created;
  }
  return -1;
}

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

int overwrite_file(const fs::path& file, std::string_view content) {
  open_file to(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (to.get() < 0) return errno;
  if (const int failed = write_synced(to.get(), content)) return failed;
  if (::ftruncate(to.get(), static_cast<off_t>(content.size())) != 0) return errno;
  return to.close();
}

int replace_file(const fs::path& file, std::string_view content) {
  fs::path made;
  open_file to(create_temporary(file, made));
  if (to.get() < 0) return errno;
  copy_mode(file, to.get());
  int failed = write_synced(to.get(), content);
  if (failed == 0) failed = to.close();
  if (failed == 0 && ::rename(made.c_str(), file.c_str()) != 0) failed = errno;
  if (failed != 0) ::unlink(made.c_str());
  // A file that is a mount point, as in containers, cannot be renamed over.
  if (failed == EBUSY) return overwrite_file(file, content);
  const open_file folder(::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (failed == 0 && folder.get() >= 0) ::fsync(folder.get());
  return failed;
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

int write_all(int to, std::string_view content) noexcept {
  while (!content.empty()) {
    const ssize_t written = ::write(to, content.data(), content.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

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
    open_file to(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
    return to.get() < 0 ? errno : to.close();
  }
  fs::path made;
  open_file to(create_temporary(file, made));
  if (to.get() < 0) return errno;
  int failed = write_all(to.get(), std::string(bytes, '\0'));
  if (failed == 0) failed = to.close();
  ::unlink(made.c_str());
  return failed;
}

int output_target::replace(std::string_view content) const {
  switch (what) {
    case kind::replaced:
      return replace_file(file, content);
    case kind::in_place:
      return overwrite_file(file, content);
    case kind::descriptor:
      std::fflush(nullptr);  // earlier output comes first
      return write_synced(descriptor, content);
    case kind::special: {
      open_file to(open_special(file));
      if (to.get() < 0) return errno;
      const int failed = write_all(to.get(), content);
      return failed != 0 ? failed : to.close();
    }
  }
  return EINVAL;
}

int output_target::open_stream() const {
  if (what == kind::descriptor) return ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (what == kind::special) return open_special(file);
  return ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, default_mode);
}

fs::path write_new_file(const fs::path& folder, const std::string& name, std::string_view content,
                        int& failed) {
  const fs::path made = folder / fmt::format("tandem-{}-{}", ::getpid(), name.substr(0, max_stem));
  open_file to(::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  failed = to.get() < 0 ? errno : write_synced(to.get(), content);
  if (failed == 0) failed = to.close();
  if (failed == 0) return made;
  if (failed != EEXIST) ::unlink(made.c_str());
  return {};
}

}  // namespace tandem::cli
