#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace tandem::cli {

/// A file that a command writes when its work is done, which may take hours: tried before, and
/// kept elsewhere where it cannot be written in spite of that. An empty path: nothing is written.
///
/// A file is replaced whole or stays as it was; symbolic links are followed. /dev/stdout,
/// /dev/fd/N, pipes and devices are written to as they are.
///
/// @par Errors  `tandem::error` of `errc::bad_input`: which option, which file, why, and where the
///   content is instead.
class output_file {
 public:
  output_file() = default;
  /// @param option  the option that names it, for errors: "--report"
  output_file(std::string option, std::string path)
      : option_(std::move(option)), path_(std::move(path)) {}

  bool is_wanted() const noexcept { return !path_.empty(); }

  /// Throws where the file cannot be written. Tries it with `expected_bytes` in a file beside it,
  /// which is removed again: what the file holds stays.
  void check(std::size_t expected_bytes = 4096) const;

  /// Replaces the content.
  void write(std::string_view content) const;

  /// Writes line after line, so that what is known stays if the program is killed; the first one
  /// replaces the content. A failure is told by `finish`, and all lines are then kept elsewhere.
  void append(std::string_view text);
  /// @par Errors  As those of `write`.
  void finish();

 private:
  int open_stream();

  std::string option_;
  std::string path_;
  std::string appended_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream_{nullptr, std::fclose};
  int append_failed_ = 0;  ///< errno
};

}  // namespace tandem::cli
