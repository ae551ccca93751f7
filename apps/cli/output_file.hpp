#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "cli/output_target.hpp"

namespace tandem::cli {

/// A file that a command writes at the end of its work, possibly after hours. It is checked before
/// the work starts; if the final write fails nevertheless, the content is saved elsewhere. An empty
/// path: nothing is written.
///
/// A file is replaced atomically: completely, or not at all. Symbolic links are followed, and stay
/// links. /dev/stdout, /dev/fd/N, pipes and devices are written in place, and so is a file in a
/// folder where no other can be created, or that is a mount point: after a failure its old content
/// is written back.
///
/// @par Errors  `tandem::error` of `errc::bad_input`: option, file, reason, and where the content
///   was saved instead.
class output_file {
 public:
  output_file() = default;
  /// @param option  the option that names the file, for errors: "--report"
  output_file(std::string option, std::string path)
      : option_(std::move(option)), path_(std::move(path)) {}

  bool is_enabled() const noexcept { return !path_.empty(); }

  /// Throws if the file cannot be written. Writes `expected_bytes` to a temporary file in the same
  /// folder and removes it; the content of the file does not change.
  void check(std::size_t expected_bytes = 4096) const;

  /// Replaces the content.
  void write(std::string_view content) const;

  /// Writes line by line. A file keeps its content until `finish` replaces it; until then the lines
  /// are in FILE.part, which is left if the program is killed. Descriptors, pipes and devices get
  /// each line at once. Failures are reported by `finish`, which then saves all lines elsewhere.
  void append(std::string_view text);
  /// @par Errors  those of `write`.
  void finish();

 private:
  void open_stream();

  std::string option_;
  std::string path_;
  std::string appended_;
  output_target target_;  ///< of `append`
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream_{nullptr, std::fclose};
  int append_failed_ = 0;  ///< errno
};

}  // namespace tandem::cli
