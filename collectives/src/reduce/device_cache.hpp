#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::detail {

/// What a compiler made of a source, on disk for the next process. The key is all that decides what
/// comes out, the source itself included, and is kept with it: another key finds nothing, nor does
/// a file that is cut, changed, another user's, or writable by others. Files are replaced at once
/// and whole, so any number of processes may share a folder.
class device_cache {
 public:
  /// $XDG_CACHE_HOME/tandem/kernels, else ~/.cache/tandem/kernels; empty where neither is known.
  static std::string folder_of_user();

  /// @param folder  made when something is to be kept; empty: keeps nothing
  explicit device_cache(std::string folder) : folder_(std::move(folder)) {}

  std::optional<std::string> find(std::string_view key) const;
  /// As far as the disk allows; a failure costs the next process its compilation, no more.
  void keep(std::string_view key, std::string_view code) const noexcept;

 private:
  std::string path_of(std::string_view key) const;

  const std::string folder_;
};

}  // namespace tandem::detail
