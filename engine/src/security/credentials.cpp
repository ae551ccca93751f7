#include "security/credentials.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <ctime>
#include <tandem/error.hpp>

#include "security/certificate_files.hpp"

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

/// Records why a certificate of the peer is refused: OpenSSL forgets the certificate itself.
int on_verified(int accepted, X509_STORE_CTX* of);

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
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_verified);
  return made;
}

const credentials& credentials_of(const SSL* session) {
  return *static_cast<const credentials*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(session)));
}

SSL_SESSION* session_of_key(SSL* session) {
  const std::span<const std::byte> key = credentials_of(session).key().bytes();
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
  const std::string& own_identity = credentials_of(session).identity();
  *identity = reinterpret_cast<const unsigned char*>(own_identity.data());
  *bytes = own_identity.size();
  *made = session_of_key(session);
  return *made != nullptr ? 1 : 0;
}

handshake_facts* facts_of(const SSL* session) {
  return static_cast<handshake_facts*>(SSL_get_app_data(session));
}

int find_key(SSL* session, const unsigned char* identity, std::size_t bytes, SSL_SESSION** made) {
  const std::string_view peer_identity(reinterpret_cast<const char*>(identity), bytes);
  *made = nullptr;
  if (peer_identity != credentials_of(session).identity()) {
    if (handshake_facts* const facts = facts_of(session)) facts->is_other_job = true;
    return 1;
  }
  *made = session_of_key(session);
  return *made != nullptr ? 1 : 0;
}

int on_verified(int accepted, X509_STORE_CTX* of) {
  const auto* const session =
      static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(of, SSL_get_ex_data_X509_STORE_CTX_idx()));
  handshake_facts* const facts = session != nullptr ? facts_of(session) : nullptr;
  if (accepted == 0 && facts != nullptr) {
    const refusal why{X509_STORE_CTX_get_error(of), X509_STORE_CTX_get0_cert(of),
                      X509_STORE_CTX_get_current_cert(of)};
    facts->refused_certificate =
        refusal_text(why, std::time(nullptr), credentials_of(session).authorities_file());
  }
  return accepted;
}

std::string identity_of(const std::string& job) {
  const digest hashed = hmac_sha256({}, {std::as_bytes(std::span(job))});
  std::string text = "tandem 1 ";
  for (const std::byte b : std::span(hashed).first(16)) {
    text += fmt::format("{:02x}", static_cast<int>(b));
  }
  return text;
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
  const certificate_files files = read_certificates(options);
  ERR_clear_error();
  bool good = SSL_CTX_use_certificate(c, files.chain.front().get()) == 1 &&
              SSL_CTX_use_PrivateKey(c, files.key.get()) == 1;
  for (std::size_t i = 1; i < files.chain.size(); ++i) {
    good = good && SSL_CTX_add1_chain_cert(c, files.chain[i].get()) == 1;
  }
  for (const certificate_pointer& one : files.authorities) {
    good = good && X509_STORE_add_cert(SSL_CTX_get_cert_store(c), one.get()) == 1;
  }
  if (!good) {
    throw error(errc::bad_input,
                fmt::format("certificate file {}: OpenSSL cannot use certificate {}: {}",
                            files.paths.certificate, certificate_text(files.chain.front().get()),
                            openssl_error_text()),
                "have another one made, with a key of a usual type and length");
  }
  made->certificate_ =
      fmt::format("{} of {}", certificate_text(files.chain.front().get()), files.paths.certificate);
  made->authorities_file_ = files.paths.authorities;
  return made;
}

std::shared_ptr<const credentials> credentials::load(const settings& options,
                                                     const std::string& job) {
  options.check();
  if (!options.certificate_file.empty()) return by_certificates(options);
  const secret shared = job_secret(options);
  return shared.empty() ? nullptr : by_secret(shared, job);
}

void check_credentials(const settings& options) {
  options.check();
  if (options.certificate_file.empty()) {
    static_cast<void>(job_secret(options));
  } else {
    static_cast<void>(read_certificates(options));
  }
}

}  // namespace tandem::trust
