// The three PEM files by which a rank authenticates itself and its peers.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <tandem/settings.hpp>
#include <vector>

struct evp_pkey_st;
struct x509_st;

namespace tandem::trust {

struct free_certificate {
  void operator()(x509_st* which) const noexcept;
};
struct free_key {
  void operator()(evp_pkey_st* which) const noexcept;
};
using certificate_pointer = std::unique_ptr<x509_st, free_certificate>;
using key_pointer = std::unique_ptr<evp_pkey_st, free_key>;

/// Names of the files, for errors.
struct certificate_paths {
  std::string certificate, key, authorities;
};

struct certificate_files {
  certificate_paths paths;
  std::vector<certificate_pointer> chain;  ///< this rank's own certificate is the first
  key_pointer key;
  std::vector<certificate_pointer> authorities;
};

/// Reads and checks the three files of the settings, at the current time.
/// @par Errors thrown  `errc::bad_input`: those of `read_credential_file`, where the key is secret;
///   those of `parse_certificates` and `check_certificates`. `errc::timed_out`.
certificate_files read_certificates(const settings& options);

/// No I/O. @par Errors thrown  `errc::bad_input`: a file that is empty, or holds no certificate or
///   no key.
certificate_files parse_certificates(certificate_paths paths, std::string_view certificate,
                                     std::string_view key, std::string_view authorities);

/// No I/O. @par Errors thrown  `errc::bad_input`: the key belongs to another certificate; the
///   certificate, or one of its issuers, is expired, not valid yet, or not signed by any of the
///   authorities.
void check_certificates(const certificate_files& of, std::time_t now);

/// "'rank1' (issued by 'our CA', valid until 2026-11-26 10:00 UTC)".
std::string certificate_text(const x509_st* which);

/// Why a chain of certificates is refused: "certificate 'rank1' has expired: it was valid until
/// ...".
struct refusal {
  long result = 0;                 ///< X509_V_ERR_...
  const x509_st* peer = nullptr;   ///< the certificate to be verified
  const x509_st* cause = nullptr;  ///< the one in its chain that is refused
};
/// @param authorities  name of the file of trusted authorities
std::string refusal_text(const refusal& why, std::time_t now, const std::string& authorities);

}  // namespace tandem::trust
