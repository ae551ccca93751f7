// What becomes of the ranks' output: pure text, no I/O.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace tandem::launcher {

/// Puts a prefix before each line of a stream that comes in pieces, and gives out whole lines only.
/// A line longer than `most_bytes` is cut there, so that memory stays bounded.
class line_prefixer {
 public:
  static constexpr std::size_t most_bytes = 1024 * 1024;

  explicit line_prefixer(std::string prefix) : prefix_(std::move(prefix)) {}
  /// The lines that these bytes complete, each with prefix and end of line; often empty.
  std::string feed(std::string_view bytes);
  /// The last line, if the stream ended inside it.
  std::string finish();

 private:
  std::string prefix_;
  std::string partial_;
};

/// Keeps the last lines of a stream, for the one who asks how it ended.
class last_words {
 public:
  void feed(std::string_view bytes);
  /// The last lines in one: "first / second". Empty where nothing was said.
  std::string text() const;

 private:
  void keep();

  static constexpr std::size_t most_lines_ = 3;
  static constexpr std::size_t most_line_bytes_ = 400;
  std::deque<std::string> lines_;
  std::string partial_;
};

}  // namespace tandem::launcher
