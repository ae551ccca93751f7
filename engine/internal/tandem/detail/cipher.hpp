#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <tandem/secret.hpp>

struct evp_cipher_ctx_st;

namespace tandem::trust {

/// AES-256-GCM (NIST SP 800-38D) with one key in one direction, one text at a time, in any number
/// of pieces: `begin`, `update` for each piece, then `finish` or `verify`.
/// @par Cost  One pass over the bytes, 0.22 ns a byte with AES-NI, and about 0.4 us a text.
///   Allocates in the constructor only.
/// @par Errors  `errc::bad_input` if a call of OpenSSL fails.
class cipher {
 public:
  enum class direction : bool { encrypt, decrypt };
  static constexpr std::size_t key_bytes = 32, nonce_bytes = 12, tag_bytes = 16;
  using nonce = std::array<std::byte, nonce_bytes>;
  using tag = std::array<std::byte, tag_bytes>;

  /// @param key  `key_bytes` long
  cipher(const secret& key, direction which);

  /// Uses another key from the next text on.
  void change_key(const secret& key);
  /// Starts a text. Never use a nonce twice with one key: two such texts reveal each other.
  void begin(const nonce& once);
  /// Writes as many bytes as it reads; `to` may equal `from.data()`.
  void update(std::span<const std::byte> from, std::byte* to);
  /// The authentication tag of the encrypted text.
  tag finish();
  /// True if the tag authenticates the decrypted text. Otherwise discard what `update` has written.
  bool verify(const tag& given);

 private:
  struct deleter {
    void operator()(evp_cipher_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_cipher_ctx_st, deleter> context_;
  const direction direction_;
};

}  // namespace tandem::trust
