#include "security/credential_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/owned_descriptor.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>
#include <vector>

namespace tandem::trust {
namespace {

/// Wiped when it is destroyed.
struct wiped_bytes {
  explicit wiped_bytes(std::size_t size) : all(size) {}
  wiped_bytes(const wiped_bytes&) = delete;
  wiped_bytes& operator=(const wiped_bytes&) = delete;
  ~wiped_bytes() { wipe(all); }
  std::vector<std::byte> all;
};

secret read_now(const credential_file& which) {
  // Non-blocking: a FIFO in place of the file must not block the process.
  const detail::owned_descriptor file(
      ::open(which.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) {
    const int failed = errno;
    if (detail::is_exhausted(failed, detail::resource::descriptor)) {
      throw detail::exhausted(failed, detail::resource::descriptor,
                              fmt::format("{} {}", which.what, which.path));
    }
    refuse_file(which, detail::errno_text(failed), which.how_to_make);
  }
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) refuse_file(which, detail::errno_text(errno), {});
  check_file(which, {S_ISREG(found.st_mode), found.st_uid, found.st_mode}, ::geteuid());
  wiped_bytes content(which.max_bytes + 1);
  std::size_t size = 0;
  while (size < content.all.size()) {
    const ssize_t n = ::read(file.get(), content.all.data() + size, content.all.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse_file(which, detail::errno_text(errno), {});
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  if (size > which.max_bytes) {
    refuse_file(which, fmt::format("longer than {} bytes", which.max_bytes),
                "is it the right file?");
  }
  return secret{std::span<const std::byte>(content.all.data(), size)};
}

}  // namespace

void refuse_file(const credential_file& which, std::string_view why, std::string advice) {
  throw error(errc::bad_input, fmt::format("{} {}: {}", which.what, which.path, why),
              std::move(advice));
}

void check_file(const credential_file& which, const file_facts& found, uid_t user) {
  if (!found.is_regular) refuse_file(which, "not a regular file", "give the path of a file");
  if (!which.is_secret) return;
  if (found.owner != user) {
    refuse_file(which, fmt::format("belongs to user {}, not to {}", found.owner, user),
                fmt::format("change its owner: chown {} {}", user, which.path));
  }
  const unsigned mode = found.mode & 07777U;
  if (mode != 0600 && mode != 0400) {
    refuse_file(which, fmt::format("its mode is {:04o}, others may read or change it", mode),
                fmt::format("chmod 600 {}", which.path));
  }
}

secret read_credential_file(const credential_file& which, std::chrono::milliseconds limit) {
  return detail::require_answer(fmt::format("{} {}", which.what, which.path), limit,
                                "is it on a network mount whose server does not respond?",
                                [owned = which] { return read_now(owned); });
}

}  // namespace tandem::trust
