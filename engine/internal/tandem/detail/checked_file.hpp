#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::detail {

/// The format of files that Tandem writes for itself and reads later. The first line says what the
/// file is and shows whether it is complete; the content follows:
///
///   tandem profile 1: 412 bytes, crc32c 1a2b3c4d
///
/// A kind that people may edit can also begin with "tandem profile 1: edited": nothing of the
/// content is checked then, since its length and checksum are no longer known.
class checked_file {
 public:
  /// @param kind  a word; the version changes with the format of the content
  constexpr checked_file(std::string_view kind, int version, bool is_editable = false) noexcept
      : kind_(kind), version_(version), is_editable_(is_editable) {}

  /// The file with that content.
  std::string seal(std::string_view content) const;

  /// The content, which refers to `file`. Empty if `file` is not a complete file of this kind and
  /// version: `why` then says what is wrong with it ("cut: 60 of 412 bytes are left").
  std::optional<std::string_view> open(std::string_view file, std::string& why) const;

  /// The first line of an edited file, without the newline.
  std::string edited_line() const;

 private:
  std::optional<std::string_view> check(std::string_view head, std::string_view content,
                                        std::string& why) const;

  std::string_view kind_;
  int version_;
  bool is_editable_;
};

}  // namespace tandem::detail
