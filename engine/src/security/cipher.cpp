#include <openssl/evp.h>

#include <algorithm>
#include <tandem/detail/cipher.hpp>
#include <tandem/error.hpp>

namespace tandem::trust {
namespace {

void require(int result) {
  if (result == 1) return;
  throw error(errc::bad_input, "OpenSSL cannot compute AES-256-GCM",
              "is OpenSSL installed and configured on this machine?");
}

const unsigned char* raw(const std::byte* bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) noexcept {
  return reinterpret_cast<unsigned char*>(bytes);
}

}  // namespace

void cipher::deleter::operator()(evp_cipher_ctx_st* context) const noexcept {
  EVP_CIPHER_CTX_free(context);
}

cipher::cipher(const secret& key, direction which)
    : context_(EVP_CIPHER_CTX_new()), direction_(which) {
  require(context_ != nullptr ? 1 : 0);
  const int encrypt = direction_ == direction::encrypt ? 1 : 0;
  require(EVP_CipherInit_ex(context_.get(), EVP_aes_256_gcm(), nullptr, nullptr, nullptr, encrypt));
  change_key(key);
}

void cipher::change_key(const secret& key) {
  require(key.bytes().size() == key_bytes ? 1 : 0);
  const unsigned char* const bytes = raw(key.bytes().data());
  require(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, bytes, nullptr, -1));
}

void cipher::begin(const nonce& once) {
  require(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, raw(once.data()), -1));
}

void cipher::update(std::span<const std::byte> from, std::byte* to) {
  constexpr std::size_t max_update_bytes = std::size_t{1} << 30;  // the interface counts in `int`
  while (!from.empty()) {
    const std::size_t bytes = std::min(from.size(), max_update_bytes);
    int done = 0;
    require(EVP_CipherUpdate(context_.get(), raw(to), &done, raw(from.data()),
                             static_cast<int>(bytes)));
    from = from.subspan(bytes);
    to += bytes;
  }
}

cipher::tag cipher::finish() {
  tag made;
  int none = 0;
  require(EVP_CipherFinal_ex(context_.get(), raw(made.data()), &none));
  require(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, tag_bytes, made.data()));
  return made;
}

bool cipher::verify(const tag& given) {
  tag copy = given;
  require(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, tag_bytes, copy.data()));
  int none = 0;
  return EVP_CipherFinal_ex(context_.get(), raw(copy.data()), &none) == 1;
}

}  // namespace tandem::trust
