#pragma once

#include <string>
#include <string_view>

namespace tandem::cli {

/// `text` as a JSON string, quoted and escaped. Bytes above 127 are copied: UTF-8 in, UTF-8 out.
std::string json_text(std::string_view text);

}  // namespace tandem::cli
