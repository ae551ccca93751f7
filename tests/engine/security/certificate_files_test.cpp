#include "security/certificate_files.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <tandem/error.hpp>

#include "security/credential_file.hpp"
#include "support/authority.hpp"

namespace tandem::trust {
namespace {

constexpr std::time_t day_s = 86400;

std::string read(const std::string& path) {
  std::ifstream from(path);
  return {std::istreambuf_iterator<char>(from), {}};
}

template <class Work>
std::string error_of(Work work) {
  try {
    work();
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::bad_input);
    return refused.what();
  }
  return "no error";
}

void expect_words(const std::string& text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
  }
}

// --- files

const credential_file key{.what = "key file", .path = "k", .is_secret = true, .how_to_make = {}};
const credential_file certificate{.what = "certificate file", .path = "c", .how_to_make = {}};

TEST(credential_files, secret_ones_are_of_this_user_only) {
  for (const mode_t mode : {0600u, 0400u}) {
    EXPECT_EQ(error_of([&] { check_file(key, {true, 7, mode}, 7); }), "no error");
  }
  for (const mode_t mode : {0644u, 0640u, 0604u, 0700u, 04600u}) {
    expect_words(error_of([&] {
                   check_file(key, {true, 7, mode}, 7);
                 }),
                 {"key file k: its mode is ", "others may read or change it; chmod 600 k"});
    EXPECT_EQ(error_of([&] { check_file(certificate, {true, 8, mode}, 7); }), "no error");
  }
  expect_words(error_of([&] {
                 check_file(key, {true, 8, 0600}, 7);
               }),
               {"belongs to user 8, not to 7", "chown 7 k"});
}

TEST(credential_files, are_regular_files) {
  for (const credential_file& which : {key, certificate}) {
    expect_words(error_of([&] { check_file(which, {false, 7, 0600}, 7); }), {"not a regular file"});
  }
}

// --- certificates

class certificate_files_test : public testing::Test {
 protected:
  certificate_files_test() {
    const settings mine = ours_.certify(folder_, "rank1", ours_);
    const settings other = others_.certify(folder_, "other", others_);
    certificate_ = read(mine.certificate_file);
    key_ = read(mine.key_file);
    authorities_ = read(mine.authorities_file);
    other_key_ = read(other.key_file);
    other_authorities_ = read(other.authorities_file);
  }
  std::string check(const std::string& certificate, const std::string& private_key,
                    const std::string& authorities, std::time_t later = 0) const {
    return error_of([&] {
      const certificate_files all =
          parse_certificates({"c.pem", "k.pem", "a.pem"}, certificate, private_key, authorities);
      check_certificates(all, std::time(nullptr) + later);
    });
  }

  const test::temporary_folder folder_;
  const test::authority ours_{"ours"}, others_{"others"};
  std::string certificate_, key_, authorities_, other_key_, other_authorities_;
};

TEST_F(certificate_files_test, that_fit_are_accepted) {
  EXPECT_EQ(check(certificate_, key_, authorities_), "no error");
  EXPECT_EQ(check(certificate_ + authorities_, key_, other_authorities_ + authorities_),
            "no error");
  EXPECT_EQ(check(key_ + certificate_, key_, authorities_), "no error");
}

TEST_F(certificate_files_test, empty_and_damaged_ones_are_named) {
  expect_words(check("", key_, authorities_), {"certificate file c.pem: is empty"});
  expect_words(check(certificate_, "", authorities_), {"key file k.pem: is empty"});
  expect_words(check(certificate_, key_, ""), {"authorities file a.pem: is empty"});
  expect_words(check("hello", key_, authorities_), {"c.pem: holds no certificate in PEM format"});
  expect_words(check(key_, key_, authorities_), {"holds no certificate, but a private key"});
  expect_words(check(certificate_, certificate_, authorities_),
               {"k.pem: holds no private key, but a certificate"});
  expect_words(check(certificate_.substr(0, certificate_.size() / 2), key_, authorities_),
               {"c.pem: its certificate 1 is damaged or incomplete"});
  expect_words(check(certificate_, "-----BEGIN ENCRYPTED PRIVATE KEY-----\n", authorities_),
               {"k.pem: its private key is protected by a pass phrase"});
}

TEST_F(certificate_files_test, of_another_key_or_authority_are_named) {
  expect_words(check(certificate_, other_key_, authorities_),
               {"key file k.pem: is not the key of certificate 'rank1' (issued by 'ours', valid "
                "until 20",
                "UTC) in c.pem"});
  expect_words(check(certificate_, key_, other_authorities_),
               {"certificate file c.pem: certificate 'rank1' (issued by 'ours'",
                "is not signed by an authority in a.pem, which has 'others'"});
}

/// They are valid for an hour, and so is the authority, which is verified first.
TEST_F(certificate_files_test, are_compared_with_the_clock) {
  expect_words(check(certificate_, key_, authorities_, day_s),
               {"file a.pem: certificate 'ours' has expired: it was valid until 20",
                "UTC, and this host's clock shows 20", "have it renewed"});
  expect_words(
      check(certificate_, key_, authorities_, -day_s),
      {"file a.pem: certificate 'ours' is not valid yet: it is valid from 20", "until 20"});
  const settings old = ours_.certify(folder_, "old", ours_, -2 * day_s, -day_s);
  expect_words(check(read(old.certificate_file), read(old.key_file), authorities_),
               {"certificate file c.pem: certificate 'old' has expired: it was valid until 20"});
}

}  // namespace
}  // namespace tandem::trust
