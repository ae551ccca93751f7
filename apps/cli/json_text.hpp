#pragma once

#include <string>
#include <string_view>

namespace tandem::cli {

/// `text` as a string of JSON, with its quotation marks.
std::string json_text(std::string_view text);

}  // namespace tandem::cli
