#include "device_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <tandem/detail/crc32c.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/log.hpp>

namespace tandem::detail {
namespace {

constexpr std::size_t max_cached_bytes = 64 << 20;

std::uint32_t sum_of(std::string_view text) {
  return crc32c(text.data(), text.size());
}

class open_file {
 public:
  explicit open_file(int descriptor) noexcept : descriptor_(descriptor) {}
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const noexcept { return descriptor_; }

 private:
  const int descriptor_;
};

/// Reads only files of this user that others cannot write: their content runs on a device.
std::optional<std::string> read_own(const std::string& path) {
  const open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
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

bool write_all(int to, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(to, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// The head of a file: lengths of key and code, and a checksum of the code, followed by the key.
std::string head_of(std::string_view key, std::size_t code_bytes, std::uint32_t sum) {
  return fmt::format("tandem kernels 1: {} {} {:08x}\n{}", key.size(), code_bytes, sum, key);
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
  return fmt::format("{}/{:08x}", folder_, sum_of(key));
}

std::optional<std::string> device_cache::find(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  std::optional<std::string> content = read_own(path_of(key));
  if (!content) return std::nullopt;
  // The code follows the key; the head must match it.
  const std::size_t at = content->find(key);
  if (at == content->npos) return std::nullopt;
  const std::string_view code = std::string_view(*content).substr(at + key.size());
  if (!content->starts_with(head_of(key, code.size(), sum_of(code)))) return std::nullopt;
  return std::string(code);
}

void device_cache::store(std::string_view key, std::string_view code) const noexcept {
  constexpr std::size_t max_head_bytes = 100;
  if (folder_.empty() || !fits_file_size_limit(max_head_bytes + key.size() + code.size())) return;
  try {
    std::error_code ignored;
    std::filesystem::create_directories(folder_, ignored);
    const std::string path = path_of(key);
    std::string temporary = path + ".XXXXXX";
    const open_file file(::mkostemp(temporary.data(), O_CLOEXEC));
    if (file.get() < 0) return log_not_cached(path, errno);
    const bool is_written = write_all(file.get(), head_of(key, code.size(), sum_of(code))) &&
                            write_all(file.get(), code);
    if (is_written && ::rename(temporary.c_str(), path.c_str()) == 0) return;
    log_not_cached(path, errno);
    ::unlink(temporary.c_str());
  } catch (const std::exception&) {  // out of memory
  }
}

}  // namespace tandem::detail
