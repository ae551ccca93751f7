#include "security/tls_session.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <tandem/error.hpp>

#include "security/credentials.hpp"

namespace tandem::trust {
namespace {

constexpr std::size_t piece_bytes = 4096;
constexpr std::size_t max_non_tls_bytes = 40;
/// Record types with which a TLS connection may begin (RFC 8446, section 5.1).
constexpr char alert_record = 21, handshake_record = 22;

constexpr auto secret_mismatch = "job secret mismatch";
constexpr auto credential_mismatch = "one end uses certificates, the other a job secret";

/// The meaning of the alert that the peer sent (RFC 8446, section 6.2).
std::string alert_text(int alert, const credentials& own) {
  const bool has_secret = own.has_secret();
  switch (alert) {
    case SSL_AD_ILLEGAL_PARAMETER:
    case SSL_AD_DECRYPT_ERROR:
      if (has_secret) return secret_mismatch;
      break;
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_UNKNOWN_PSK_IDENTITY:
      if (has_secret) return "it belongs to another job, or uses certificates instead of a secret";
      return credential_mismatch;
    case SSL_AD_CERTIFICATE_REQUIRED:
      return credential_mismatch;
    case SSL_AD_CERTIFICATE_EXPIRED:
      return fmt::format("it refused this rank's certificate {} as expired by its clock",
                         own.certificate());
    case SSL_AD_UNKNOWN_CA:
      return fmt::format("it trusts no authority that signed this rank's certificate {}",
                         own.certificate());
    default:
      break;
  }
  if (!own.certificate().empty()) {
    return fmt::format("it refused this rank's certificate {} ({})", own.certificate(),
                       SSL_alert_desc_string_long(alert));
  }
  return fmt::format("it rejected the credentials of this end ({})",
                     SSL_alert_desc_string_long(alert));
}

}  // namespace

tls_session::tls_session(std::shared_ptr<const credentials> with, side which)
    : credentials_(std::move(with)),
      ssl_(SSL_new(credentials_->context()), SSL_free),
      facts_(std::make_unique<handshake_facts>()) {
  from_network_ = BIO_new(BIO_s_mem());
  to_network_ = BIO_new(BIO_s_mem());
  if (!ssl_ || from_network_ == nullptr || to_network_ == nullptr) {
    BIO_free(from_network_);
    BIO_free(to_network_);
    throw error(errc::limit_exceeded, "no memory for a TLS session");
  }
  SSL_set_bio(ssl_.get(), from_network_, to_network_);
  SSL_set_app_data(ssl_.get(), facts_.get());
  if (which == side::connects) {
    SSL_set_connect_state(ssl_.get());
    advance();  // the client sends first
  } else {
    SSL_set_accept_state(ssl_.get());
  }
}

tls_session::~tls_session() = default;

void tls_session::receive(std::string_view bytes) {
  while (!bytes.empty() && (state_ == state::handshaking || state_ == state::open)) {
    if (received_bytes_ == 0 && bytes.front() != handshake_record &&
        bytes.front() != alert_record) {
      non_tls_bytes_ = bytes.substr(0, max_non_tls_bytes);
      fail("it does not speak TLS");
      return;
    }
    const std::string_view piece = bytes.substr(0, piece_bytes);
    bytes.remove_prefix(piece.size());
    received_bytes_ += piece.size();
    BIO_write(from_network_, piece.data(), static_cast<int>(piece.size()));
    advance();
    if (state_ == state::handshaking && received_bytes_ > max_handshake_bytes) {
      fail(fmt::format("no complete TLS handshake in {} bytes", received_bytes_));
    }
  }
}

void tls_session::send(std::string_view plain) {
  if (state_ == state::handshaking) {
    pending_ += plain;
  } else if (state_ == state::open) {
    write(plain);
  }
}

void tls_session::advance() {
  if (state_ == state::handshaking) {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    if (result != 1) {
      if (SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_READ) fail(last_error());
      return;
    }
    // With a secret, only a handshake by the pre-shared key authenticates the peer.
    if (credentials_->has_secret() && SSL_session_reused(ssl_.get()) != 1) {
      fail(credential_mismatch);
      return;
    }
    state_ = state::open;
    write(std::exchange(pending_, {}));
  }
  read();
}

void tls_session::read() {
  std::array<char, piece_bytes> some;
  while (state_ == state::open) {
    ERR_clear_error();
    const int n = SSL_read(ssl_.get(), some.data(), static_cast<int>(some.size()));
    if (n > 0) {
      plain_.append(some.data(), static_cast<std::size_t>(n));
      continue;
    }
    const int what = SSL_get_error(ssl_.get(), n);
    if (what == SSL_ERROR_WANT_READ) return;
    if (what == SSL_ERROR_ZERO_RETURN) {
      state_ = state::ended;
    } else {
      fail(last_error());
    }
  }
}

void tls_session::write(std::string_view plain) {
  std::size_t written = 0;
  ERR_clear_error();
  if (!plain.empty() && SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written) != 1) {
    fail(last_error());
  }
}

void tls_session::fail(std::string why) {
  state_ = state::failed;
  why_ = std::move(why);
  pending_.clear();
}

std::string tls_session::last_error() const {
  const unsigned long number = ERR_peek_error();
  const int reason = ERR_GET_REASON(number);
  const bool has_secret = credentials_->has_secret();
  ERR_clear_error();
  if (facts_->is_other_job) return "it belongs to another job";
  // OpenSSL reports a received alert as SSL_AD_REASON_OFFSET (1000) + the number of the alert.
  if (reason > SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + 255) {
    return alert_text(reason - SSL_AD_REASON_OFFSET, *credentials_);
  }
  if (reason == SSL_R_BINDER_DOES_NOT_VERIFY) return secret_mismatch;
  if (has_secret &&
      (reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM || reason == SSL_R_NO_SHARED_CIPHER ||
       reason == SSL_R_CERTIFICATE_VERIFY_FAILED)) {
    return credential_mismatch;
  }
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) return credential_mismatch;
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) return "its " + facts_->refused_certificate;
  const char* const reason_text = ERR_reason_error_string(number);
  return fmt::format("TLS error: {}", reason_text != nullptr ? reason_text : "unknown cause");
}

std::string tls_session::take_outgoing() {
  std::string bytes(BIO_ctrl_pending(to_network_), '\0');
  if (!bytes.empty()) BIO_read(to_network_, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

std::string tls_session::take_plain() {
  return std::exchange(plain_, {});
}

}  // namespace tandem::trust
