#pragma once

#include <memory>
#include <string>
#include <tandem/detail/trust.hpp>
#include <tandem/settings.hpp>

struct ssl_ctx_st;

namespace tandem::trust {

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
  /// @par Errors `errc::bad_input`: those of `job_secret`; a certificate, key or list of
  ///   authorities that cannot be read, or that do not fit together.
  static std::shared_ptr<const credentials> load(const settings& options, const std::string& job);
  static std::shared_ptr<const credentials> by_secret(const secret& shared, const std::string& job);

  explicit credentials(std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> context);

  ssl_ctx_st* context() const noexcept { return context_.get(); }
  bool has_secret() const noexcept { return !key_.empty(); }
  const secret& key() const noexcept { return key_; }
  const std::string& identity() const noexcept { return identity_; }

 private:
  static std::shared_ptr<const credentials> by_certificates(const settings& options);

  std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> context_;
  secret key_;
  std::string identity_;
};

}  // namespace tandem::trust
