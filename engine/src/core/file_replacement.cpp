#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <tandem/detail/file_replacement.hpp>

namespace tandem::detail {
namespace {

constexpr std::size_t max_stem_bytes = 200;  // of the 255 bytes of a name

/// Pipes do not support fsync (EINVAL).
int sync_file(int descriptor) noexcept {
  return ::fsync(descriptor) != 0 && errno != EINVAL && errno != EROFS ? errno : 0;
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

int write_synced(int to, std::string_view content) noexcept {
  if (const int failed = write_all(to, content)) return failed;
  return sync_file(to);
}

file_replacement::file_replacement(std::string file, mode_t mode) : file_(std::move(file)) {
  const std::filesystem::path path = file_;
  std::random_device random;
  for (int i = 0; i < 100; ++i) {
    made_ = path.parent_path() /
            fmt::format(".{}.{:08x}", path.filename().string().substr(0, max_stem_bytes), random());
    to_ = owned_descriptor(::open(made_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    failed_ = to_.get() < 0 ? errno : 0;
    if (failed_ != EEXIST) break;
  }
  if (failed_ == 0) return;
  made_.clear();
}

file_replacement::~file_replacement() {
  if (!made_.empty()) ::unlink(made_.c_str());
}

int file_replacement::write(std::string_view content) noexcept {
  if (failed_ == 0) failed_ = write_all(to_.get(), content);
  return failed_;
}

int file_replacement::commit() {
  if (failed_ == 0) failed_ = sync_file(to_.get());
  if (failed_ == 0) failed_ = to_.close();
  if (failed_ == 0 && ::rename(made_.c_str(), file_.c_str()) != 0) failed_ = errno;
  if (failed_ != 0) return failed_;
  made_.clear();
  // The rename itself is on disk only when the folder is; it has happened either way.
  const std::size_t slash = file_.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : file_.substr(0, slash + 1);
  const owned_descriptor folder(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
  return 0;
}

}  // namespace tandem::detail
