#pragma once

#include <memory>
#include <string>
#include <tandem/settings.hpp>
#include <tandem/trust.hpp>

struct ssl_ctx_st;

namespace tandem::trust {

/// What this process proves itself with to the others of its job, by TLS 1.3 and nothing older:
///
/// - a secret: an external pre-shared key (RFC 8446, section 4.2.11), always with a fresh
///   Diffie-Hellman exchange (psk_dhe_ke). Key and identity are derived from secret and job, so
///   that the same secret in another job opens nothing;
/// - or certificates, asked of both ends: whoever has one that the authorities signed is trusted.
///
/// Nothing is resumed, and no data is sent before the handshake is done: a recorded handshake is
/// worth nothing.
class credentials {
 public:
  /// Null where the settings name neither. Reads files.
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
