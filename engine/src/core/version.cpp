#include <tandem/version.hpp>

namespace tandem {

const char* version() noexcept {
  return TANDEM_VERSION_TEXT;
}
const char* commit() noexcept {
  return TANDEM_COMMIT_TEXT;
}

}  // namespace tandem
