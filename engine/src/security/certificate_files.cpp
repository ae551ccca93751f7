#include "security/certificate_files.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>
#include <tandem/error.hpp>
#include <utility>

#include "security/credential_file.hpp"

namespace tandem::trust {
namespace {

using bio_pointer = std::unique_ptr<BIO, int (*)(BIO*)>;
using store_pointer = std::unique_ptr<X509_STORE, void (*)(X509_STORE*)>;
using store_context_pointer = std::unique_ptr<X509_STORE_CTX, void (*)(X509_STORE_CTX*)>;

constexpr auto which_files =
    "give PEM files: a certificate, its private key, and the certificate authorities";
constexpr std::size_t max_pem_bytes = 4 * 1024 * 1024;  // bundles of authorities are large

[[noreturn]] void refuse(std::string_view what, const std::string& path, std::string_view why,
                         std::string advice) {
  refuse_file({.what = what, .path = path, .how_to_make = {}}, why, std::move(advice));
}

[[noreturn]] void out_of_memory() {
  throw error(errc::limit_exceeded, "no memory to check certificates");
}

bio_pointer reader_of(std::string_view text) {
  bio_pointer made(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  if (!made) out_of_memory();
  return made;
}

/// A key with a pass phrase must not prompt for it on the terminal.
int no_pass_phrase(char*, int, int, void*) {
  return 0;
}

std::vector<certificate_pointer> certificates_in(std::string_view what, const std::string& path,
                                                 std::string_view text) {
  if (text.empty()) refuse(what, path, "is empty", which_files);
  const bio_pointer from = reader_of(text);
  std::vector<certificate_pointer> all;
  ERR_clear_error();
  while (X509* const one = PEM_read_bio_X509(from.get(), nullptr, no_pass_phrase, nullptr)) {
    all.emplace_back(one);
  }
  const bool is_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!is_end) {
    refuse(what, path, fmt::format("its certificate {} is damaged or incomplete", all.size() + 1),
           which_files);
  }
  if (!all.empty()) return all;
  const bool is_key = text.find("PRIVATE KEY-----") != std::string_view::npos;
  refuse(what, path,
         fmt::format("holds no certificate{}", is_key ? ", but a private key" : " in PEM format"),
         which_files);
}

key_pointer key_in(const std::string& path, std::string_view text) {
  constexpr auto what = "key file";
  if (text.empty()) refuse(what, path, "is empty", which_files);
  const bio_pointer from = reader_of(text);
  ERR_clear_error();
  key_pointer found(PEM_read_bio_PrivateKey(from.get(), nullptr, no_pass_phrase, nullptr));
  ERR_clear_error();
  if (found) return found;
  if (text.find("ENCRYPTED") != std::string_view::npos) {
    refuse(what, path, "its private key is protected by a pass phrase, which nobody can enter",
           "store it without one: openssl pkey -in OLD -out NEW");
  }
  const bool is_certificate = text.find("CERTIFICATE-----") != std::string_view::npos;
  refuse(what, path,
         fmt::format("holds no private key{}",
                     is_certificate ? ", but a certificate" : " in PEM format"),
         which_files);
}

std::string common_name(const X509_NAME* name) {
  std::array<char, 256> text{};
  const int length = X509_NAME_get_text_by_NID(const_cast<X509_NAME*>(name), NID_commonName,
                                               text.data(), static_cast<int>(text.size()));
  std::string found(text.data(), static_cast<std::size_t>(std::max(length, 0)));
  // It may come from an unauthenticated peer: no control characters in logs.
  for (char& c : found) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return found.empty() ? "no name" : fmt::format("'{}'", found);
}

std::string time_text(std::time_t time) {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(time));
}

std::string time_text(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "an unreadable date";
  return time_text(::timegm(&parts));
}

std::string names_of(const std::vector<certificate_pointer>& all) {
  constexpr std::size_t max_named = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), max_named); ++i) {
    text +=
        fmt::format("{}{}", i == 0 ? "" : ", ", common_name(X509_get_subject_name(all[i].get())));
  }
  if (all.size() > max_named) text += fmt::format(" and {} more", all.size() - max_named);
  return text;
}

bool is_about_issuer(long result) {
  return result == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
         result == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT ||
         result == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
         result == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
         result == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE ||
         result == X509_V_ERR_CERT_SIGNATURE_FAILURE;
}

}  // namespace

void free_certificate::operator()(x509_st* which) const noexcept {
  X509_free(which);
}
void free_key::operator()(evp_pkey_st* which) const noexcept {
  EVP_PKEY_free(which);
}

std::string certificate_text(const x509_st* which) {
  return fmt::format("{} (issued by {}, valid until {})", common_name(X509_get_subject_name(which)),
                     common_name(X509_get_issuer_name(which)),
                     time_text(X509_get0_notAfter(which)));
}

std::string refusal_text(const refusal& why, std::time_t now, const std::string& authorities) {
  const x509_st* const cause = why.cause;
  if (cause == nullptr || why.peer == nullptr) return X509_verify_cert_error_string(why.result);
  const std::string name = common_name(X509_get_subject_name(cause));
  if (why.result == X509_V_ERR_CERT_HAS_EXPIRED) {
    return fmt::format(
        "certificate {} has expired: it was valid until {}, and this host's clock shows {}", name,
        time_text(X509_get0_notAfter(cause)), time_text(now));
  }
  if (why.result == X509_V_ERR_CERT_NOT_YET_VALID) {
    return fmt::format(
        "certificate {} is not valid yet: it is valid from {} until {}, and this host's clock "
        "shows {}",
        name, time_text(X509_get0_notBefore(cause)), time_text(X509_get0_notAfter(cause)),
        time_text(now));
  }
  if (is_about_issuer(why.result)) {
    return fmt::format("certificate {} is not signed by an authority in {}",
                       certificate_text(why.peer), authorities);
  }
  return fmt::format("certificate {} is not accepted: {}", certificate_text(cause),
                     X509_verify_cert_error_string(why.result));
}

certificate_files parse_certificates(certificate_paths paths, std::string_view certificate,
                                     std::string_view key, std::string_view authorities) {
  certificate_files made;
  made.chain = certificates_in("certificate file", paths.certificate, certificate);
  made.key = key_in(paths.key, key);
  made.authorities = certificates_in("authorities file", paths.authorities, authorities);
  made.paths = std::move(paths);
  return made;
}

void check_certificates(const certificate_files& of, std::time_t now) {
  X509* const own = of.chain.front().get();
  if (X509_check_private_key(own, of.key.get()) != 1) {
    ERR_clear_error();
    refuse("key file", of.paths.key,
           fmt::format("is not the key of certificate {} in {}", certificate_text(own),
                       of.paths.certificate),
           "give the private key that was made for this certificate");
  }
  const store_pointer trusted(X509_STORE_new(), X509_STORE_free);
  const store_context_pointer context(X509_STORE_CTX_new(), X509_STORE_CTX_free);
  STACK_OF(X509)* const others = sk_X509_new_null();
  bool good = trusted && context && others != nullptr;
  for (const certificate_pointer& one : of.authorities) {
    good = good && X509_STORE_add_cert(trusted.get(), one.get()) == 1;
  }
  for (std::size_t i = 1; i < of.chain.size(); ++i) {
    good = good && sk_X509_push(others, of.chain[i].get()) > 0;
  }
  good = good && X509_STORE_CTX_init(context.get(), trusted.get(), own, others) == 1;
  if (good) X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context.get()), now);
  const bool verified = good && X509_verify_cert(context.get()) == 1;
  const long result = verified ? X509_V_OK
                      : good   ? X509_STORE_CTX_get_error(context.get())
                               : X509_V_ERR_OUT_OF_MEM;
  const X509* const at = good ? X509_STORE_CTX_get_current_cert(context.get()) : nullptr;
  const std::string why = refusal_text({result, own, at}, now, of.paths.authorities);
  const bool is_own = at == nullptr || X509_cmp(at, own) == 0;
  sk_X509_free(others);
  ERR_clear_error();
  if (!good) out_of_memory();
  if (verified) return;
  if (is_about_issuer(result)) {
    refuse("certificate file", of.paths.certificate,
           fmt::format("{}, which has {}", why, names_of(of.authorities)),
           "give the certificate of the authority that signed it, and those between them");
  }
  const bool in_chain =
      at != nullptr && !is_own &&
      std::none_of(of.authorities.begin(), of.authorities.end(),
                   [at](const auto& one) { return X509_cmp(one.get(), at) == 0; });
  const bool is_time =
      result == X509_V_ERR_CERT_HAS_EXPIRED || result == X509_V_ERR_CERT_NOT_YET_VALID;
  refuse(is_own || in_chain ? "certificate file" : "authorities file",
         is_own || in_chain ? of.paths.certificate : of.paths.authorities, why,
         is_time ? "have it renewed, or correct this host's clock" : "have another one made");
}

certificate_files read_certificates(const settings& options) {
  const auto read = [&options](std::string_view what, const std::string& path, bool is_secret) {
    return read_credential_file({.what = what,
                                 .path = path,
                                 .is_secret = is_secret,
                                 .max_bytes = max_pem_bytes,
                                 .how_to_make = which_files},
                                options.meet_timeout);
  };
  const secret certificate = read("certificate file", options.certificate_file, false);
  const secret key = read("key file", options.key_file, true);
  const secret authorities = read("authorities file", options.authorities_file, false);
  certificate_files found =
      parse_certificates({options.certificate_file, options.key_file, options.authorities_file},
                         certificate.text(), key.text(), authorities.text());
  check_certificates(found, std::time(nullptr));
  return found;
}

}  // namespace tandem::trust
