#include "rendezvous/host_text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tandem/detail/name_lookup.hpp>
#include <tandem/error.hpp>
#include <vector>

namespace {

using tandem::detail::numeric_address;
using tandem::rendezvous::is_loopback_host;
using tandem::rendezvous::parse_host;

TEST(host_text, accepts_common_notations) {
  const std::vector<std::pair<std::string, std::string>> cases{{"n1", "n1"},
                                                               {"N1.Site.ORG.", "N1.Site.ORG."},
                                                               {" n1\n", "n1"},
                                                               {"10.0.0.1", "10.0.0.1"},
                                                               {"::1", "::1"},
                                                               {"[::1]", "::1"},
                                                               {"[2001:db8::7]", "2001:db8::7"},
                                                               {"fe80::1%lo", "fe80::1%lo"},
                                                               {"[fe80::1%1]", "fe80::1%1"}};
  for (const auto& [text, host] : cases) EXPECT_EQ(parse_host("MASTER_ADDR", text), host) << text;
}

TEST(host_text, explains_invalid_text) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases{
      {" ", {"is empty"}},
      {"n1:29500", {"contains a port", "MASTER_PORT", "(n1)", "29500"}},
      {"[::1]:29500", {"contains a port", "(::1)", "29500"}},
      {"tcp://n1", {"URL"}},
      {"n1 n2", {"blank"}},
      {"[::1", {"bracket"}},
      {"[::1]x", {"text after its bracket"}},
      {"[n1]", {"not an IPv6 address"}},
      {"1:2:3", {"not an IPv6 address"}},
      {"fe80::1", {"link-local", "fe80::1%eth0"}},
      {"fe80::1%no-such-nic", {"interface 'no-such-nic'", "does not have"}}};
  for (const auto& [text, words] : cases) {
    try {
      parse_host("MASTER_ADDR", text);
      ADD_FAILURE() << text;
    } catch (const tandem::error& e) {
      EXPECT_EQ(e.code(), tandem::errc::bad_input);
      EXPECT_TRUE(std::string(e.what()).starts_with("MASTER_ADDR=" + text)) << e.what();
      for (const std::string& word : words) {
        EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
      }
    }
  }
}

TEST(host_text, distinguishes_numbers_names_and_loopback) {
  EXPECT_FALSE(numeric_address("n1"));
  EXPECT_EQ(numeric_address("::ffff:10.0.0.1")->to_string(), "10.0.0.1");
  for (const char* here : {"localhost", "LocalHost.", "127.3.2.1", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback_host(here)) << here;
  }
  for (const char* beyond : {"n1", "127.example.org", "localhost.example.org", "10.0.0.1", "::2"}) {
    EXPECT_FALSE(is_loopback_host(beyond)) << beyond;
  }
}

}  // namespace
