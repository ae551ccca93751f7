#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <tandem/detail/resources.hpp>
#include <tandem/detail/trust.hpp>
#include <tandem/error.hpp>

namespace tandem::trust {
namespace {

constexpr std::size_t min_secret_bytes = 16;
constexpr std::size_t max_secret_bytes = 4096;

class open_file {
 public:
  /// Non-blocking: a FIFO in place of the file must not block the process.
  explicit open_file(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void refuse(const std::string& path, const std::string& why, std::string advice) {
  throw error(errc::bad_input, fmt::format("secret file {}: {}", path, why), std::move(advice));
}

void check_file(const struct stat& file, const std::string& path) {
  if (!S_ISREG(file.st_mode)) refuse(path, "not a regular file", "give the path of a file");
  if (file.st_uid != ::geteuid()) {
    refuse(path, fmt::format("belongs to user {}, not to {}", file.st_uid, ::geteuid()),
           fmt::format("change its owner: chown {} {}", ::geteuid(), path));
  }
  const unsigned mode = file.st_mode & 07777U;
  if (mode != 0600 && mode != 0400) {
    refuse(path, fmt::format("its mode is {:04o}, others may read or change it", mode),
           fmt::format("chmod 600 {}", path));
  }
}

secret read_file(const std::string& path) {
  const open_file file(path);
  if (file.fd() < 0) {
    if (detail::is_exhausted(errno, detail::resource::descriptor)) {
      throw detail::exhausted(errno, detail::resource::descriptor, "secret file " + path);
    }
    refuse(path, detail::errno_text(errno),
           fmt::format("create one: (umask 077; openssl rand -hex 32 > {})", path));
  }
  struct stat found {};
  if (::fstat(file.fd(), &found) != 0) refuse(path, detail::errno_text(errno), {});
  check_file(found, path);
  std::array<std::byte, max_secret_bytes + 1> content;
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t n = ::read(file.fd(), content.data() + size, content.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse(path, detail::errno_text(errno), {});
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  const bool too_long = size > max_secret_bytes;
  if (size > 0 && content[size - 1] == std::byte{'\n'}) --size;
  if (size > 0 && content[size - 1] == std::byte{'\r'}) --size;
  secret found_secret{std::span<const std::byte>(content.data(), too_long ? 0 : size)};
  wipe(content);
  if (too_long) {
    refuse(path, fmt::format("longer than {} bytes", max_secret_bytes), "is it the right file?");
  }
  return found_secret;
}

}  // namespace

secret job_secret(const settings& options) {
  if (!options.certificate_file.empty()) return {};
  const bool by_file = !options.secret_file.empty();
  secret found = by_file ? read_file(options.secret_file) : options.job_secret;
  const std::size_t bytes = found.bytes().size();
  if (bytes >= min_secret_bytes || (bytes == 0 && !by_file)) return found;
  const std::string where =
      by_file ? fmt::format("secret file {}", options.secret_file) : "TANDEM_SECRET";
  throw error(errc::bad_input,
              fmt::format("{}: {} bytes are too few for a secret (at least {})", where, bytes,
                          min_secret_bytes),
              by_file ? fmt::format("create another: (umask 077; openssl rand -hex 32 > {})",
                                    options.secret_file)
                      : "set it to what 'openssl rand -hex 32' prints");
}

}  // namespace tandem::trust
