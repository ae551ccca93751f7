#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tandem::cli {

/// What a path means to one who wants to write there. The functions return 0 or errno.
struct output_target {
  enum class kind {
    replaced,    ///< a file, or none yet: a new one takes its place
    in_place,    ///< a file in a folder that takes no new ones
    descriptor,  ///< one of this process's own: /dev/stdout
    special      ///< a pipe or device
  };
  kind what = kind::replaced;
  std::filesystem::path file;  ///< links followed, as far as they are files
  int descriptor = -1;

  /// Where `path` leads to.
  static int find(const std::filesystem::path& path, output_target& result);

  /// Whether as many bytes can be written; leaves nothing behind.
  int probe(std::size_t bytes) const;
  /// Replaces the content; as long as the target is a file, all of it or nothing.
  int replace(std::string_view content) const;
  /// A descriptor of the caller's that writes from the beginning; -1 with errno.
  int open_stream() const;
};

/// Writes all of it; 0 or errno.
int write_all(int to, std::string_view content) noexcept;

/// Writes a new file in `folder`, named after `name`: its path, or empty with errno in `failed`.
std::filesystem::path write_new_file(const std::filesystem::path& folder, const std::string& name,
                                     std::string_view content, int& failed);

}  // namespace tandem::cli
