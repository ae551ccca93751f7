#include "fabric/proof.hpp"

#include <tandem/error.hpp>

namespace tandem::transport {
namespace {

std::string_view word(step what) noexcept {
  switch (what) {
    case step::listener:
      return "listener";
    case step::connector:
      return "connector";
    case step::accepted:
      return "welcome";
    case step::crossed:
      break;
  }
  return "crossed";
}

}  // namespace

proof prove(step what, const secret& key, const wire_hello& of_connector,
            const wire_hello& of_listener) {
  const std::string_view its_word = word(what);
  return trust::hmac_sha256(key.bytes(),
                            {std::as_bytes(std::span(its_word)), of_connector, of_listener});
}

bool is_proof(const proof& given, step what, const secret& key, const wire_hello& of_connector,
              const wire_hello& of_listener) {
  const proof right = prove(what, key, of_connector, of_listener);
  return trust::equal_in_constant_time(given, right);
}

secret pair_key(const settings& options) {
  const secret shared = trust::job_secret(options);
  return shared.empty() ? secret() : trust::derive_key(shared, "tandem pair");
}

void check_encryption(const settings& options, const secret& key) {
  if (!options.encrypt || !key.empty()) return;
  throw error(
      errc::bad_option, "encrypt=1 needs a job secret, but none is set",
      "give every rank a secret (TANDEM_SECRET_FILE) or certificates, or set TANDEM_ENCRYPT=0");
}

}  // namespace tandem::transport
