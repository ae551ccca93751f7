#include "support/authority.hpp"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <stdexcept>

namespace tandem::test {
namespace {

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

X509_NAME* named(X509* certificate, const std::string& name) {
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const auto* const text = reinterpret_cast<const unsigned char*>(name.c_str());
  require(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1, "no name");
  return subject;
}

X509* unsigned_certificate(const std::string& name, EVP_PKEY* key, long number, long begin_s = -60,
                           long end_s = 3600) {
  X509* const made = X509_new();
  X509_set_version(made, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made), number);
  X509_gmtime_adj(X509_getm_notBefore(made), begin_s);
  X509_gmtime_adj(X509_getm_notAfter(made), end_s);
  X509_set_pubkey(made, key);
  named(made, name);
  return made;
}

void write_pem(const std::string& path, X509* certificate, EVP_PKEY* key) {
  BIO* const file = BIO_new_file(path.c_str(), "w");
  require(file != nullptr, "no file for a PEM");
  const int written = certificate != nullptr ? PEM_write_bio_X509(file, certificate)
                                             : PEM_write_bio_PrivateKey(file, key, nullptr, nullptr,
                                                                        0, nullptr, nullptr);
  BIO_free(file);
  require(written == 1, "no PEM");
  if (key != nullptr) require(::chmod(path.c_str(), 0600) == 0, "no mode for a key");
}

}  // namespace

authority::authority(std::string name)
    : name_(std::move(name)),
      key_(EVP_EC_gen("P-256")),
      certificate_(unsigned_certificate(name_, key_, 1)) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, certificate_, certificate_, nullptr, nullptr, 0);
  X509_EXTENSION* const may_sign =
      X509V3_EXT_conf_nid(nullptr, &context, NID_basic_constraints, "critical,CA:TRUE");
  X509_add_ext(certificate_, may_sign, -1);
  X509_EXTENSION_free(may_sign);
  X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
  require(X509_sign(certificate_, key_, EVP_sha256()) > 0, "no authority");
}

authority::~authority() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

settings authority::certify(const temporary_folder& in, const std::string& rank,
                            const authority& trusted, long begin_s, long end_s) const {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const made = unsigned_certificate(rank, key, 2, begin_s, end_s);
  X509_set_issuer_name(made, X509_get_subject_name(certificate_));
  require(X509_sign(made, key_, EVP_sha256()) > 0, "no certificate");
  settings s;
  s.certificate_file = in.path(rank + ".certificate");
  s.key_file = in.path(rank + ".key");
  s.authorities_file = in.path(rank + ".authorities");
  write_pem(s.certificate_file, made, nullptr);
  write_pem(s.key_file, nullptr, key);
  write_pem(s.authorities_file, trusted.certificate_, nullptr);
  X509_free(made);
  EVP_PKEY_free(key);
  return s;
}

}  // namespace tandem::test
