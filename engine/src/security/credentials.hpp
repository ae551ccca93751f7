#pragma once

#include <memory>
#include <string>
#include <tandem/detail/trust.hpp>
#include <tandem/settings.hpp>

struct ssl_ctx_st;

namespace tandem::trust {

/// What the callbacks of a handshake have found; the application data of its SSL object.
struct handshake_facts {
  bool is_other_job = false;
  std::string refused_certificate;  ///< of the peer, and why
};

/// How this process authenticates itself to the other ranks of its job, by TLS 1.3 only:
///
/// - a secret: an external pre-shared key (RFC 8446, section 4.2.11), always with a fresh
///   Diffie-Hellman exchange (psk_dhe_ke). Key and identity are derived from secret and job, so
///   that the same secret in another job is rejected;
/// - or certificates, required of both ends: any that the authorities signed is trusted.
///
/// No session is resumed and no early data is sent: a recorded handshake cannot be replayed.
class credentials {
 public:
  /// Null where the settings name neither a secret nor certificates. Reads files.
  /// @par Errors `errc::bad_input`: those of `job_secret` and of `read_certificates`.
  ///   `errc::timed_out`: a file that cannot be read within `meet_timeout`.
  static std::shared_ptr<const credentials> load(const settings& options, const std::string& job);
  static std::shared_ptr<const credentials> by_secret(const secret& shared, const std::string& job);

  explicit credentials(std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> context);

  ssl_ctx_st* context() const noexcept { return context_.get(); }
  bool has_secret() const noexcept { return !key_.empty(); }
  const secret& key() const noexcept { return key_; }
  const std::string& identity() const noexcept { return identity_; }
  /// This rank's certificate and its file, for errors; empty with a secret.
  const std::string& certificate() const noexcept { return certificate_; }
  const std::string& authorities_file() const noexcept { return authorities_file_; }

 private:
  static std::shared_ptr<const credentials> by_certificates(const settings& options);

  std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> context_;
  secret key_;
  std::string identity_;
  std::string certificate_;
  std::string authorities_file_;
};

}  // namespace tandem::trust
