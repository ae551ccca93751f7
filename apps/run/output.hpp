// Text processing of the ranks' output; no I/O.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace tandem::launcher {

/// Prefixes each line of a stream that is received in pieces, and returns complete lines only. A
/// line longer than `max_bytes` is split there, which bounds the memory.
class line_prefixer {
 public:
  static constexpr std::size_t max_bytes = 1024 * 1024;

  explicit line_prefixer(std::string prefix) : prefix_(std::move(prefix)) {}
  /// The lines that these bytes complete, each with prefix and end of line; often empty.
  std::string feed(std::string_view bytes);
  /// The last line, if the stream ended without an end of line.
  std::string finish();

 private:
  std::string prefix_;
  std::string partial_;
};

/// The last lines of a stream, for the error message of a rank that failed.
class last_lines {
 public:
  void feed(std::string_view bytes);
  /// The last lines joined: "first / second". Empty if the stream was.
  std::string text() const;

 private:
  void finish_line();

  static constexpr std::size_t max_lines_ = 3;
  static constexpr std::size_t max_line_bytes_ = 400;
  std::deque<std::string> lines_;
  std::string partial_;
};

}  // namespace tandem::launcher
