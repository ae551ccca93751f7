#include "device_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/checked_file.hpp>
#include <tandem/detail/crc32c.hpp>
#include <tandem/detail/file_replacement.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/log.hpp>

namespace tandem::detail {
namespace {

constexpr std::size_t max_cached_bytes = 64 << 20;
constexpr checked_file kernels_file("kernels", 2);

/// What precedes the code in a file.
std::string head_of(std::string_view key) {
  return fmt::format("{}\n{}\n", key.size(), key);
}

/// Reads only files of this user that others cannot write: their content runs on a device.
std::optional<std::string> read_own(const std::string& path) {
  const owned_descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat found {};
  if (file.get() < 0 || ::fstat(file.get(), &found) != 0) return std::nullopt;
  if (!S_ISREG(found.st_mode) || found.st_uid != ::geteuid() || (found.st_mode & 022) != 0) {
    return std::nullopt;
  }
  if (found.st_size < 0 || static_cast<std::size_t>(found.st_size) > max_cached_bytes) {
    return std::nullopt;
  }
  std::string content(static_cast<std::size_t>(found.st_size), '\0');
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t n = ::read(file.get(), content.data() + size, content.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    size += static_cast<std::size_t>(n);
  }
  return content;
}

/// Only logged: the next process compiles the kernels again.
void log_not_cached(const std::string& path, int code) {
  log(log_level::info, "reduce",
      fmt::format("compiled kernels are not cached in {}: {}", path,
                  failure_text(code, resource::file)));
}

/// False if the write would exceed RLIMIT_FSIZE, which would kill the process with SIGXFSZ.
bool fits_file_size_limit(std::size_t bytes) noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         bytes <= limit.rlim_cur;
}

const char* path_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value == '/' ? value : nullptr;
}

}  // namespace

std::string device_cache::folder_of_user() {
  if (const char* const caches = path_variable("XDG_CACHE_HOME")) {
    return fmt::format("{}/tandem/kernels", caches);
  }
  if (const char* const home = path_variable("HOME")) {
    return fmt::format("{}/.cache/tandem/kernels", home);
  }
  return {};
}

std::string device_cache::path_of(std::string_view key) const {
  return fmt::format("{}/{:08x}", folder_, crc32c(key.data(), key.size()));
}

std::optional<std::string> device_cache::find(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  const auto read = [path = path_of(key)] { return read_own(path); };
  const auto answer = call_within(driver_timeout(), read);
  if (!answer || !*answer) return std::nullopt;  // also where its file system does not respond
  const std::string& file = **answer;
  std::string ignored;  // whatever is wrong with the file: the kernels are compiled again
  const std::optional<std::string_view> content = kernels_file.open(file, ignored);
  const std::string head = head_of(key);
  if (!content || !content->starts_with(head)) return std::nullopt;
  return std::string(content->substr(head.size()));
}

void device_cache::store(std::string_view key, std::string_view code) const noexcept {
  if (folder_.empty()) return;
  try {
    const std::string file = kernels_file.seal(head_of(key) + std::string(code));
    if (!fits_file_size_limit(file.size())) return;
    const std::string path = path_of(key);
    const auto write = [folder = folder_, path, file] {
      std::error_code ignored;
      std::filesystem::create_directories(folder, ignored);
      file_replacement made(path, 0600);
      const int failed = made.write(file);
      return failed != 0 ? failed : made.commit();
    };
    const int failed = call_within(driver_timeout(), write).value_or(ETIMEDOUT);
    if (failed != 0) log_not_cached(path, failed);
  } catch (const std::exception&) {  // out of memory
  }
}

}  // namespace tandem::detail
