#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <tandem/detail/owned_descriptor.hpp>

namespace tandem::detail {

/// Writes all of `content`. Returns 0 or errno.
int write_all(int to, std::string_view content) noexcept;
/// The same, and syncs it to disk where the descriptor is that of a file.
int write_synced(int to, std::string_view content) noexcept;

/// Replaces an ordinary file: the new content is written to a hidden file beside it, synced, and
/// renamed over the old one. Until `commit` succeeds the old file is unchanged; without it the new
/// one is removed. Functions return 0 or errno.
class file_replacement {
 public:
  /// Creates the new file. @param mode  of it, reduced by the umask
  file_replacement(std::string file, mode_t mode);
  file_replacement(const file_replacement&) = delete;
  file_replacement& operator=(const file_replacement&) = delete;
  ~file_replacement();

  /// Why it could not be created.
  int failure() const noexcept { return failed_; }
  /// Descriptor of the new file.
  int descriptor() const noexcept { return to_.get(); }
  int write(std::string_view content) noexcept;
  /// Without syncing; for a file that is not kept.
  int close() noexcept { return to_.close(); }
  int commit();

 private:
  const std::string file_;
  std::string made_;
  owned_descriptor to_;
  int failed_ = 0;
};

}  // namespace tandem::detail
