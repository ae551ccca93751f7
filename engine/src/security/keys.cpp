#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <tandem/detail/trust.hpp>
#include <tandem/error.hpp>
#include <vector>

namespace tandem::trust {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

[[noreturn]] void throw_openssl_error(const char* what) {
  throw error(errc::bad_input, what, "is OpenSSL installed and configured on this machine?");
}

}  // namespace

void random_bytes(std::span<std::byte> into) {
  auto* const to = reinterpret_cast<unsigned char*>(into.data());
  if (RAND_bytes(to, static_cast<int>(into.size())) != 1) {
    throw_openssl_error("OpenSSL cannot generate random bytes");
  }
}

digest hmac_sha256(std::span<const std::byte> key,
                   std::initializer_list<std::span<const std::byte>> parts) {
  std::vector<std::byte> message;
  for (const auto& part : parts) message.insert(message.end(), part.begin(), part.end());
  digest result;
  unsigned int length = 0;
  // A null pointer would mean the key of the previous call: an empty key needs an address.
  const std::byte none{};
  const unsigned char* const made =
      HMAC(EVP_sha256(), key.empty() ? &none : key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(),
           reinterpret_cast<unsigned char*>(result.data()), &length);
  wipe(message);
  if (made == nullptr || length != result.size())
    throw_openssl_error("OpenSSL cannot compute HMAC-SHA256");
  return result;
}

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

secret derive_key(const secret& from, std::string_view label, std::string_view context) {
  digest extracted = hmac_sha256(bytes_of(context), {from.bytes()});
  // One block of the expansion (RFC 5869) gives the 32 bytes that are needed.
  const std::byte first_block{1};
  digest expanded = hmac_sha256(extracted, {bytes_of(label), std::span(&first_block, 1)});
  secret key{std::span<const std::byte>(expanded)};
  wipe(extracted);
  wipe(expanded);
  return key;
}

}  // namespace tandem::trust
