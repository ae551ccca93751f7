#include <fmt/format.h>

#include <cstdint>
#include <tandem/detail/checked_file.hpp>
#include <tandem/detail/crc32c.hpp>
#include <tandem/detail/number_text.hpp>

namespace tandem::detail {
namespace {

constexpr std::size_t max_head_bytes = 200;

std::string checksum_of(std::string_view content) {
  return fmt::format("{:08x}", crc32c(content.data(), content.size()));
}

/// Removes `prefix` from the beginning of `text`; false if it does not begin so.
bool skip_text(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::string checked_file::seal(std::string_view content) const {
  return fmt::format("tandem {} {}: {} bytes, crc32c {}\n{}", kind_, version_, content.size(),
                     checksum_of(content), content);
}

std::string checked_file::edited_line() const {
  return fmt::format("tandem {} {}: edited", kind_, version_);
}

std::optional<std::string_view> checked_file::open(std::string_view file, std::string& why) const {
  const std::size_t end = file.substr(0, max_head_bytes).find('\n');
  if (end == std::string_view::npos) {
    why = fmt::format("its first line is cut, or not that of a {}", kind_);
    return std::nullopt;
  }
  return check(file.substr(0, end), file.substr(end + 1), why);
}

std::optional<std::string_view> checked_file::check(std::string_view head, std::string_view content,
                                                    std::string& why) const {
  if (head.ends_with('\r')) head.remove_suffix(1);
  int version = 0;
  if (!skip_text(head, fmt::format("tandem {} ", kind_)) ||
      take_number(head, version) != number_kind::valid || !skip_text(head, ": ")) {
    why = fmt::format("its first line is not that of a {}", kind_);
    return std::nullopt;
  }
  if (version != version_) {
    why = fmt::format("it is of version {}; this program reads version {}", version, version_);
    return std::nullopt;
  }
  if (is_editable_ && head == "edited") return content;
  std::size_t bytes = 0;
  if (take_number(head, bytes) != number_kind::valid || !skip_text(head, " bytes, crc32c ") ||
      head.size() != 8) {
    why = "its first line is damaged";
  } else if (content.size() < bytes) {
    why = fmt::format("it is cut: {} of {} bytes are left", content.size(), bytes);
  } else if (content.size() > bytes) {
    why = fmt::format("it has {} bytes more than were written", content.size() - bytes);
  } else if (checksum_of(content) != head) {
    why = "it has been changed: its checksum differs";
  } else {
    return content;
  }
  return std::nullopt;
}

}  // namespace tandem::detail
