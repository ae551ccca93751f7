#include <fmt/format.h>

#include <tandem/detail/trust.hpp>
#include <tandem/error.hpp>

#include "security/credential_file.hpp"

namespace tandem::trust {
namespace {

constexpr std::size_t min_secret_bytes = 16;
constexpr std::size_t max_secret_bytes = 4096;

/// Without the newline that editors and `openssl rand` add.
secret read_secret(const settings& options) {
  const std::string& path = options.secret_file;
  const secret content = read_credential_file(
      {.what = "secret file",
       .path = path,
       .is_secret = true,
       .max_bytes = max_secret_bytes,
       .how_to_make = fmt::format("create one: (umask 077; openssl rand -hex 32 > {})", path)},
      options.meet_timeout);
  std::string_view text = content.text();
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  return secret(text);
}

}  // namespace

secret job_secret(const settings& options) {
  if (!options.certificate_file.empty()) return {};
  const bool by_file = !options.secret_file.empty();
  secret found = by_file ? read_secret(options) : options.job_secret;
  const std::size_t bytes = found.bytes().size();
  if (bytes >= min_secret_bytes || (bytes == 0 && !by_file)) return found;
  const std::string where =
      by_file ? fmt::format("secret file {}", options.secret_file) : "TANDEM_SECRET";
  throw error(errc::bad_input,
              fmt::format("{}: {} bytes are too few for a secret (at least {})", where, bytes,
                          min_secret_bytes),
              by_file ? fmt::format("create another: (umask 077; openssl rand -hex 32 > {})",
                                    options.secret_file)
                      : "set it to what 'openssl rand -hex 32' prints");
}

}  // namespace tandem::trust
