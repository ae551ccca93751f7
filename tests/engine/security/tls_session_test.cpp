#include "security/tls_session.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <tandem/error.hpp>

#include "security/credentials.hpp"
#include "support/authority.hpp"

namespace tandem::trust {
namespace {

using credentials_pointer = std::shared_ptr<const credentials>;
using state = tls_session::state;

credentials_pointer by(const std::string& text, const std::string& job = "job") {
  return credentials::by_secret(secret(std::string_view(text)), job);
}

/// Two sessions and the wire between them.
struct connection {
  connection(const credentials_pointer& a, const credentials_pointer& b)
      : client(a, tls_session::side::connects), server(b, tls_session::side::accepts) {}

  /// False: nothing was in flight.
  bool step(std::size_t most = 1 << 20) {
    const auto move = [most](tls_session& from, std::string& wire, std::string& all,
                             tls_session& to) {
      const std::string out = from.take_outgoing();
      wire += out;
      all += out;
      if (wire.empty()) return false;
      to.receive(wire.substr(0, most));
      wire.erase(0, most);
      return true;
    };
    const bool there = move(client, up, all_up, server);
    const bool back = move(server, down, all_down, client);
    return there || back;
  }
  void exchange_all(std::size_t most = 1 << 20) {
    while (step(most)) continue;
  }

  tls_session client, server;
  std::string up, down, all_up, all_down;
};

TEST(tls_session, with_same_secret_opens_in_both_directions) {
  connection c(by("one"), by("one"));
  c.client.send("before the handshake ");
  c.client.send("is done");
  c.exchange_all();
  ASSERT_EQ(c.client.at(), state::open) << c.client.why();
  ASSERT_EQ(c.server.at(), state::open) << c.server.why();
  EXPECT_EQ(c.server.take_plain(), "before the handshake is done");
  const std::string large(300'000, 'x');
  c.server.send(large);
  c.client.send("word");
  c.exchange_all();
  EXPECT_EQ(c.client.take_plain(), large);
  EXPECT_EQ(c.server.take_plain(), "word");
  EXPECT_EQ(c.all_up.find("word"), std::string::npos);
}

TEST(tls_session, accepts_single_bytes) {
  connection c(by("one"), by("one"));
  c.client.send("hello");
  c.exchange_all(1);
  EXPECT_EQ(c.server.at(), state::open) << c.server.why();
  EXPECT_EQ(c.server.take_plain(), "hello");
  EXPECT_LT(c.all_up.size() + c.all_down.size(), 2000u);
}

TEST(tls_session, with_different_secrets_is_refused_on_both_sides) {
  connection c(by("one"), by("another"));
  c.client.send("nobody may read this");
  c.exchange_all();
  EXPECT_EQ(c.server.at(), state::failed);
  EXPECT_EQ(c.client.at(), state::failed);
  EXPECT_EQ(c.server.why(), "job secret mismatch");
  EXPECT_EQ(c.client.why(), "job secret mismatch");
  EXPECT_EQ(c.server.take_plain() + c.client.take_plain(), "");
}

TEST(tls_session, with_different_jobs_is_refused_on_both_sides) {
  connection c(by("one", "job"), by("one", "job 2"));
  c.exchange_all();
  EXPECT_EQ(c.server.why(), "it belongs to another job");
  EXPECT_NE(c.client.why().find("it belongs to another job"), std::string::npos) << c.client.why();
}

TEST(tls_session, replayed_handshake_is_refused) {
  connection c(by("one"), by("one"));
  c.client.send("transfer");
  c.exchange_all();
  EXPECT_EQ(c.server.take_plain(), "transfer");
  tls_session again(by("one"), tls_session::side::accepts);
  again.receive(c.all_up);
  EXPECT_EQ(again.at(), state::failed);
  EXPECT_EQ(again.take_plain(), "");
  tls_session client(by("one"), tls_session::side::connects);
  client.receive(c.all_down);
  EXPECT_EQ(client.at(), state::failed);
}

TEST(tls_session, reflected_handshake_is_refused) {
  tls_session one(by("one"), tls_session::side::connects);
  one.receive(one.take_outgoing());
  EXPECT_EQ(one.at(), state::failed) << one.why();
}

/// A man in the middle with its own secret on both sides.
TEST(tls_session, man_in_the_middle_is_refused_by_both) {
  connection to_server(by("his"), by("one")), to_client(by("one"), by("his"));
  to_server.client.send("hello");
  to_client.client.send("hello");
  to_server.exchange_all();
  to_client.exchange_all();
  EXPECT_EQ(to_server.server.at(), state::failed);
  EXPECT_EQ(to_client.client.at(), state::failed);
  EXPECT_EQ(to_server.server.take_plain() + to_client.server.take_plain(), "");
}

TEST(tls_session, other_programs_are_detected_by_first_byte) {
  tls_session s(by("one"), tls_session::side::accepts);
  s.receive("GET / HTTP/1.1\r\n");
  EXPECT_EQ(s.at(), state::failed);
  EXPECT_EQ(s.non_tls_bytes(), "GET / HTTP/1.1\r\n");
  EXPECT_EQ(s.take_outgoing(), "");
}

/// Records that never complete a handshake must not fill the memory.
TEST(tls_session, handshake_size_is_limited) {
  tls_session s(by("one"), tls_session::side::accepts);
  // A client hello of 60,000 bytes, in records of 1,000.
  std::string record("\x16\x03\x01\x03\xe8", 5);
  std::string first = record + std::string("\x01\x00\xea\x60", 4) + std::string(996, '\0');
  s.receive(first);
  std::size_t given = first.size();
  while (s.at() == state::handshaking && given < 100'000) {
    const std::string more = record + std::string(1000, '\0');
    s.receive(more);
    given += more.size();
  }
  EXPECT_EQ(s.at(), state::failed);
  EXPECT_LE(given, tls_session::max_handshake_bytes + 2 * 1005);
}

TEST(tls_session, truncated_handshake_waits_unauthenticated) {
  connection complete(by("one"), by("one"));
  complete.client.send("hello");
  complete.exchange_all();
  const std::string hello = tls_session(by("one"), tls_session::side::connects).take_outgoing();
  for (std::size_t n = 1; n < hello.size(); n += 7) {
    tls_session s(by("one"), tls_session::side::accepts);
    s.receive(std::string_view(hello).substr(0, n));
    EXPECT_EQ(s.at(), state::handshaking) << n;
    EXPECT_EQ(s.take_outgoing(), "");
  }
}

TEST(tls_session, any_damage_ends_it) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    connection c(by("one"), by("one"));
    c.client.send("hello");
    std::string hello = c.client.take_outgoing();
    // After the record header, whose version field is not checked.
    hello[5 + random() % (hello.size() - 5)] ^= static_cast<char>(1 + random() % 255);
    c.server.receive(hello);
    c.exchange_all();
    EXPECT_NE(c.client.at(), state::open) << i;
    EXPECT_EQ(c.server.take_plain(), "");
  }
  for (int i = 0; i < 50; ++i) {
    connection c(by("one"), by("one"));
    c.exchange_all();
    c.client.send("a word of some length");
    std::string word = c.client.take_outgoing();
    word[5 + random() % (word.size() - 5)] ^= static_cast<char>(1 + random() % 255);
    c.server.receive(word);
    EXPECT_EQ(c.server.take_plain(), "");
  }
}

TEST(tls_session, random_bytes_are_safe) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 2'000; ++i) {
    tls_session s(by("one"), i % 2 == 0 ? tls_session::side::accepts : tls_session::side::connects);
    std::string bytes("\x16\x03\x01", 3);
    const std::size_t length = random() % 600;
    bytes += static_cast<char>(length >> 8);
    bytes += static_cast<char>(length);
    while (bytes.size() < 5 + length) bytes += static_cast<char>(random());
    s.receive(bytes);
    EXPECT_NE(s.at(), state::open);
    EXPECT_EQ(s.take_plain(), "");
  }
}

// --- certificates

class tls_certificates : public testing::Test {
 protected:
  credentials_pointer of(const std::string& rank, const test::authority& signed_by,
                         const test::authority& trusts) {
    return credentials::load(signed_by.certify(folder_, rank, trusts), "job");
  }
  const test::temporary_folder folder_;
  const test::authority ours_{"ours"}, others_{"others"};
};

TEST_F(tls_certificates, of_one_authority_open) {
  connection c(of("rank1", ours_, ours_), of("rank0", ours_, ours_));
  c.client.send("hello");
  c.exchange_all();
  EXPECT_EQ(c.client.at(), state::open) << c.client.why();
  EXPECT_EQ(c.server.at(), state::open) << c.server.why();
  EXPECT_EQ(c.server.take_plain(), "hello");
}

/// Each rank's own files fit together: its authorities include the one that signed it.
TEST_F(tls_certificates, of_another_authority_are_refused_on_either_side) {
  const auto both = [this](const std::string& rank, const test::authority& signed_by) {
    settings s = signed_by.certify(folder_, rank, ours_);
    const settings more = signed_by.certify(folder_, rank + " more", others_);
    std::ofstream(s.authorities_file, std::ios::app)
        << std::ifstream(more.authorities_file).rdbuf();
    return credentials::load(s, "job");
  };
  connection unauthenticated(both("rank1", others_), of("rank0", ours_, ours_));
  unauthenticated.client.send("hello");
  unauthenticated.exchange_all();
  EXPECT_EQ(unauthenticated.server.at(), state::failed);
  const std::string refused = "its certificate 'rank1' (issued by 'others', valid until 20";
  EXPECT_EQ(unauthenticated.server.why().find(refused), 0u) << unauthenticated.server.why();
  EXPECT_NE(unauthenticated.server.why().find("is not signed by an authority in"),
            std::string::npos);
  EXPECT_EQ(unauthenticated.client.at(), state::failed);
  EXPECT_NE(unauthenticated.client.why().find(
                "it trusts no authority that signed this rank's certificate 'rank1' (issued by"),
            std::string::npos)
      << unauthenticated.client.why();
  EXPECT_EQ(unauthenticated.server.take_plain(), "");
  connection imposter(of("rank1", ours_, ours_), both("rank0", others_));
  imposter.client.send("hello");
  imposter.exchange_all();
  EXPECT_EQ(imposter.client.at(), state::failed);
  EXPECT_EQ(imposter.client.why().find("its certificate 'rank0' (issued by 'others'"), 0u)
      << imposter.client.why();
  EXPECT_EQ(imposter.server.take_plain(), "");
}

TEST_F(tls_certificates, do_not_connect_to_a_secret) {
  connection one(by("one"), of("rank0", ours_, ours_));
  one.exchange_all();
  EXPECT_EQ(one.client.at(), state::failed);
  EXPECT_NE(one.client.why().find("certificates"), std::string::npos) << one.client.why();
  connection other(of("rank1", ours_, ours_), by("one"));
  other.exchange_all();
  EXPECT_EQ(other.server.at(), state::failed);
  EXPECT_NE(other.server.why().find("certificates"), std::string::npos) << other.server.why();
  EXPECT_EQ(other.client.at(), state::failed);
}

TEST_F(tls_certificates, unusable_files_are_named) {
  const auto error_text = [](const settings& s) -> std::string {
    try {
      credentials::load(s, "job");
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::bad_input);
      return e.what();
    }
    return "no error";
  };
  const settings good = ours_.certify(folder_, "rank0", ours_);
  const settings other = ours_.certify(folder_, "rank1", ours_);
  for (const auto& [member, name] : {std::pair{&settings::certificate_file, "certificate file"},
                                     {&settings::key_file, "key file"},
                                     {&settings::authorities_file, "authorities file"}}) {
    settings s = good;
    s.*member = folder_.path("absent");
    EXPECT_EQ(error_text(s).find(name), 0u) << error_text(s);
  }
  settings s = good;
  s.key_file = other.key_file;
  EXPECT_EQ(error_text(s).find("key file"), 0u) << error_text(s);
  EXPECT_EQ(error_text(good), "no error");
  EXPECT_EQ(credentials::load(settings{}, "job"), nullptr);
}

}  // namespace
}  // namespace tandem::trust
