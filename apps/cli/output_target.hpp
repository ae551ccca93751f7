#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tandem::cli {

/// How to write to a path. The functions return 0 or errno.
struct output_target {
  enum class kind {
    replaced,    ///< a regular file, or none yet: written as a new file and renamed
    in_place,    ///< a file in a folder without write permission: overwritten
    descriptor,  ///< a descriptor of this process: /dev/stdout
    special      ///< a pipe or device
  };
  kind what = kind::replaced;
  std::filesystem::path file;  ///< with symbolic links resolved
  int descriptor = -1;

  /// Resolves `path`.
  static int find(const std::filesystem::path& path, output_target& result);

  /// Tests whether that many bytes can be written; leaves no file behind.
  int probe(std::size_t bytes) const;
  /// Replaces the content; atomically if the target is `replaced`.
  int replace(std::string_view content) const;
  /// True if `replace` replaces the whole content; false for what only passes it on.
  bool is_replaced_whole() const noexcept;
  /// For a file that is replaced: beside it, where lines are kept until all have been written.
  std::filesystem::path part() const;
  /// A descriptor, owned by the caller, for one line after the other: to `part()`, or to the pipe
  /// or device itself. -1 with errno.
  int open_stream() const;
};

/// Writes a new file in `folder`, named after `name`. Returns its path, or empty with errno in
/// `failed`.
std::filesystem::path write_new_file(const std::filesystem::path& folder, const std::string& name,
                                     std::string_view content, int& failed);

}  // namespace tandem::cli
