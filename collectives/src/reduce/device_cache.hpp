#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tandem/memory.hpp>

namespace tandem::detail {

/// An on-disk cache of compiled kernels. The key contains all inputs of the compilation, including
/// the source, and is stored in the file: files with another key are ignored, as are truncated or
/// modified files, and files that belong to another user or are writable by others. Files are
/// replaced atomically, so any number of processes may share a folder.
class device_cache {
 public:
  /// $XDG_CACHE_HOME/tandem/kernels, else ~/.cache/tandem/kernels; empty where neither is known.
  static std::string folder_of_user();

  /// @param folder  created on first use; empty: no caching
  explicit device_cache(std::string folder) : folder_(std::move(folder)) {}

  std::optional<std::string> find(std::string_view key) const;
  /// Best effort: after a failure the next process compiles again.
  void store(std::string_view key, std::string_view code) const noexcept;

 private:
  std::string path_of(std::string_view key) const;

  const std::string folder_;
};

/// Compiles a kernel source for an accelerator of that kind and architecture, or loads what it was
/// compiled to from the user's cache. @par Cost  a second or two; from the cache a millisecond.
/// @par Errors thrown: `errc::device_failed`: there is no compiler, or it fails, with its log.
std::string compile_kernels(const std::string& source, memory_kind kind,
                            const std::string& architecture);

}  // namespace tandem::detail
