#include "security/credentials.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <tandem/error.hpp>

namespace tandem::trust {
namespace {

using context_pointer = std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)>;

/// Both suites hash by SHA-256, as the pre-shared key does.
constexpr auto suites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr unsigned char psk_suite[] = {0x13, 0x01};  // the first of them
constexpr unsigned char session_context[] = "tandem";

std::string openssl_error_text() {
  const unsigned long number = ERR_peek_last_error();
  const char* const reason = ERR_reason_error_string(number);
  std::string text = reason != nullptr ? reason : "unknown cause";
  ERR_clear_error();
  return text;
}

context_pointer make_context() {
  context_pointer made(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX* const c = made.get();
  const bool good = c != nullptr && SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_ciphersuites(c, suites) == 1 &&
                    SSL_CTX_set_num_tickets(c, 0) == 1 && SSL_CTX_set_max_early_data(c, 0) == 1 &&
                    SSL_CTX_set_session_id_context(c, session_context, sizeof session_context) == 1;
  if (!good) {
    throw error(errc::bad_input, "OpenSSL cannot do TLS 1.3: " + openssl_error_text(),
                "is it installed and configured on this machine?");
  }
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  // With a secret no authority is loaded, so no certificate verifies: only the secret is accepted.
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // A key with a pass phrase must not prompt for it on the terminal.
  SSL_CTX_set_default_passwd_cb(c, [](char*, int, int, void*) { return 0; });
  return made;
}

const credentials& of(SSL* session) {
  return *static_cast<const credentials*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(session)));
}

SSL_SESSION* session_of_key(SSL* session) {
  const std::span<const std::byte> key = of(session).key().bytes();
  const auto* const bytes = reinterpret_cast<const unsigned char*>(key.data());
  const SSL_CIPHER* const suite = SSL_CIPHER_find(session, psk_suite);
  SSL_SESSION* const made = SSL_SESSION_new();
  const bool good =
      made != nullptr && suite != nullptr &&
      SSL_SESSION_set1_master_key(made, bytes, key.size()) == 1 &&
      SSL_SESSION_set1_id_context(made, session_context, sizeof session_context) == 1 &&
      SSL_SESSION_set_cipher(made, suite) == 1 &&
      SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) == 1;
  if (good) return made;
  SSL_SESSION_free(made);
  return nullptr;
}

int offer_key(SSL* session, const EVP_MD*, const unsigned char** identity, std::size_t* bytes,
              SSL_SESSION** made) {
  const std::string& own_identity = of(session).identity();
  *identity = reinterpret_cast<const unsigned char*>(own_identity.data());
  *bytes = own_identity.size();
  *made = session_of_key(session);
  return *made != nullptr ? 1 : 0;
}

/// Sets the flag of the session where the peer belongs to another job.
int find_key(SSL* session, const unsigned char* identity, std::size_t bytes, SSL_SESSION** made) {
  const std::string_view peer_identity(reinterpret_cast<const char*>(identity), bytes);
  *made = nullptr;
  if (peer_identity != of(session).identity()) {
    if (auto* const other_job = static_cast<bool*>(SSL_get_app_data(session))) *other_job = true;
    return 1;
  }
  *made = session_of_key(session);
  return *made != nullptr ? 1 : 0;
}

std::string identity_of(const std::string& job) {
  const digest hashed = hmac_sha256({}, {std::as_bytes(std::span(job))});
  std::string text = "tandem 1 ";
  for (const std::byte b : std::span(hashed).first(16)) {
    text += fmt::format("{:02x}", static_cast<int>(b));
  }
  return text;
}

[[noreturn]] void refuse_file(const char* what, const std::string& path) {
  throw error(errc::bad_input, fmt::format("{} {}: {}", what, path, openssl_error_text()),
              "give PEM files: a certificate, its private key, and the certificate authorities");
}

}  // namespace

credentials::credentials(context_pointer context) : context_(std::move(context)) {
  SSL_CTX_set_app_data(context_.get(), this);
}

std::shared_ptr<const credentials> credentials::by_secret(const secret& shared,
                                                          const std::string& job) {
  auto made = std::make_shared<credentials>(make_context());
  made->key_ = derive_key(shared, "tandem bootstrap", job);
  made->identity_ = identity_of(job);
  SSL_CTX_set_psk_use_session_callback(made->context(), offer_key);
  SSL_CTX_set_psk_find_session_callback(made->context(), find_key);
  return made;
}

std::shared_ptr<const credentials> credentials::by_certificates(const settings& options) {
  auto made = std::make_shared<credentials>(make_context());
  SSL_CTX* const c = made->context();
  const std::string &certificate = options.certificate_file, &key = options.key_file,
                    &authorities = options.authorities_file;
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(c, certificate.c_str()) != 1) {
    refuse_file("certificate file", certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(c, key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(c) != 1) {
    refuse_file("key file", key);
  }
  if (SSL_CTX_load_verify_locations(c, authorities.c_str(), nullptr) != 1) {
    refuse_file("authorities file", authorities);
  }
  return made;
}

std::shared_ptr<const credentials> credentials::load(const settings& options,
                                                     const std::string& job) {
  options.check();
  if (!options.certificate_file.empty()) return by_certificates(options);
  const secret shared = job_secret(options);
  return shared.empty() ? nullptr : by_secret(shared, job);
}

}  // namespace tandem::trust
