#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <tandem/detail/trust.hpp>
#include <tandem/error.hpp>

#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace tandem {
namespace {

using test::contains_text;
const std::string good = "0123456789abcdef";

settings with_file(const std::string& path) {
  settings s;
  s.secret_file = path;
  return s;
}

std::string error_text(const settings& options) {
  try {
    trust::job_secret(options);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::bad_input);
    const std::string text = e.what();
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_EQ(text.find("0123"), std::string::npos) << "it shows the secret: " << text;
    return text;
  }
  return "no error";
}

TEST(job_secret, is_read_from_private_file) {
  const test::temporary_folder folder;
  for (const mode_t mode : {0600, 0400}) {
    for (const char* const end : {"", "\n", "\r\n"}) {
      const auto s = with_file(folder.file("secret", good + end, 0600));
      ::chmod(s.secret_file.c_str(), mode);
      EXPECT_EQ(trust::job_secret(s).text(), good);
      ::chmod(s.secret_file.c_str(), 0600);
    }
  }
}

TEST(job_secret, in_file_accessible_by_others_is_refused) {
  const test::temporary_folder folder;
  for (const mode_t mode : {0640, 0604, 0644, 0620, 0700, 04600}) {
    const std::string path = folder.file("secret", good, mode);
    const std::string text = error_text(with_file(path));
    EXPECT_TRUE(contains_text(text, "its mode is ")) << text;
    EXPECT_TRUE(contains_text(text, "chmod 600 " + path)) << text;
  }
}

TEST(job_secret, in_file_of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give a file away";
  const test::temporary_folder folder;
  const std::string path = folder.file("secret", good);
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  const std::string text = error_text(with_file(path));
  EXPECT_TRUE(contains_text(text, "belongs to user 12345, not to 0")) << text;
  EXPECT_TRUE(contains_text(text, "chown 0 ")) << text;
}

TEST(job_secret, missing_or_short_is_refused) {
  const test::temporary_folder folder;
  EXPECT_TRUE(
      contains_text(error_text(with_file(folder.path("absent"))), "openssl rand -hex 32 > "));
  EXPECT_TRUE(contains_text(error_text(with_file(folder.path(""))), "not a regular file"));
  EXPECT_TRUE(
      contains_text(error_text(with_file(folder.file("empty", ""))), "0 bytes are too few"));
  EXPECT_TRUE(
      contains_text(error_text(with_file(folder.file("line", "\n"))), "0 bytes are too few"));
  EXPECT_TRUE(contains_text(error_text(with_file(folder.file("short", good.substr(1)))),
                            "15 bytes are too few"));
  EXPECT_TRUE(
      contains_text(error_text(with_file(folder.file("long", std::string(5000, 'x')))), "longer"));
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(contains_text(error_text(with_file(pipe)),
                            "not a regular file"));  // and does not wait for it
}

TEST(job_secret, file_takes_precedence_over_environment) {
  ::setenv("TANDEM_SECRET", (good + "-env").c_str(), 1);
  settings s = settings::from_environment();
  ::unsetenv("TANDEM_SECRET");
  EXPECT_EQ(trust::job_secret(s).text(), good + "-env");
  for (const option& o : option_table()) EXPECT_FALSE(contains_text(o.get(s), good)) << o.name;
  const test::temporary_folder folder;
  s.secret_file = folder.file("secret", good);
  EXPECT_EQ(trust::job_secret(s).text(), good);
  s.secret_file.clear();
  s.certificate_file = "here";
  EXPECT_TRUE(trust::job_secret(s).empty());
  settings too_short;
  too_short.job_secret = secret(std::string_view("0123"));
  EXPECT_TRUE(contains_text(error_text(too_short), "TANDEM_SECRET: 4 bytes are too few"));
  EXPECT_TRUE(trust::job_secret(settings{}).empty());
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    for (const int digit : {static_cast<int>(b) >> 4, static_cast<int>(b) & 15}) {
      text += "0123456789abcdef"[digit];
    }
  }
  return text;
}

/// RFC 4231, test case 2.
TEST(trust_keys, hmac_sha256_matches_rfc_4231) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  EXPECT_EQ(
      hex(trust::hmac_sha256(bytes("Jefe"), {bytes("what do ya "), bytes("want for nothing?")})),
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

/// RFC 5869, test case 1 (its first 32 bytes).
TEST(trust_keys, derivation_matches_rfc_5869) {
  const std::string from(22, '\x0b'), salt("\0\1\2\3\4\5\6\7\x8\x9\xa\xb\xc", 13),
      information("\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9", 10);
  EXPECT_EQ(hex(trust::derive_key(secret(std::string_view(from)), information, salt).bytes()),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
}

TEST(trust_keys, comparison_and_random_bytes) {
  std::array<std::byte, 40> a{}, b{};
  EXPECT_TRUE(trust::equal_in_constant_time(a, b));
  b.back() = std::byte{1};
  EXPECT_FALSE(trust::equal_in_constant_time(a, b));
  EXPECT_FALSE(trust::equal_in_constant_time(a, std::span(a).first(39)));
  trust::random_bytes(a);
  trust::random_bytes(b);
  EXPECT_NE(a, b);
}

TEST(settings_of_trust, must_be_consistent) {
  const auto check = [](auto set) -> std::string {
    settings s;
    set(s);
    try {
      s.check();
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::bad_option);
      return e.what();
    }
    return "";
  };
  EXPECT_TRUE(
      contains_text(check([](settings& s) { s.key_file = "k"; }), "without --certificate-file"));
  EXPECT_TRUE(contains_text(check([](settings& s) { s.certificate_file = s.key_file = "k"; }),
                            "without --authorities-file"));
  EXPECT_TRUE(contains_text(check([](settings& s) {
                              s.certificate_file = s.key_file = s.authorities_file = s.secret_file =
                                  "k";
                            }),
                            "both a secret file and certificates"));
  EXPECT_EQ(check([](settings& s) { s.certificate_file = s.key_file = s.authorities_file = "k"; }),
            "");
  settings s;
  s.set("secret-file", "somewhere");
  EXPECT_EQ(s.secret_file, "somewhere");
  s.set("secret-file", "none");
  EXPECT_TRUE(s.secret_file.empty());
  EXPECT_THROW(s.set("secret-file", ""), error);
}

}  // namespace
}  // namespace tandem
