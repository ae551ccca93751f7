#include "output.hpp"

namespace tandem::launcher {

std::string line_prefixer::feed(std::string_view bytes) {
  std::string lines;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    const std::size_t space = max_bytes - partial_.size();
    const bool cut = piece.size() > space;
    partial_ += piece.substr(0, space);
    if (!cut && end == std::string_view::npos) break;
    lines += prefix_ + partial_ + '\n';
    partial_.clear();
    bytes.remove_prefix(cut ? space : end + 1);
  }
  return lines;
}

std::string line_prefixer::finish() {
  if (partial_.empty()) return {};
  std::string line = prefix_ + partial_ + '\n';
  partial_.clear();
  return line;
}

void last_lines::feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (c == '\n' || c == '\r') {
      finish_line();
    } else if (partial_.size() < max_line_bytes_) {
      partial_ += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
}

void last_lines::finish_line() {
  if (partial_.find_first_not_of(' ') != std::string::npos) lines_.push_back(partial_);
  if (lines_.size() > max_lines_) lines_.pop_front();
  partial_.clear();
}

std::string last_lines::text() const {
  last_lines ended = *this;
  ended.finish_line();
  std::string joined;
  for (const std::string& line : ended.lines_) joined += (joined.empty() ? "" : " / ") + line;
  return joined;
}

}  // namespace tandem::launcher
