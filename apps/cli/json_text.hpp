#pragma once

#include <string>
#include <string_view>

namespace tandem::cli {

/// `text` as a string of JSON with its quotation marks. Bytes above 127 pass as they are: UTF-8 in,
/// UTF-8 out.
std::string json_text(std::string_view text);

}  // namespace tandem::cli
