#include "rendezvous/listen_address.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tandem/detail/name_lookup.hpp>
#include <tandem/error.hpp>
#include <vector>

#include "rendezvous/host_text.hpp"

namespace {

namespace ip = boost::asio::ip;
using namespace tandem::rendezvous;

std::vector<ip::address> addresses(std::initializer_list<const char*> all) {
  std::vector<ip::address> some;
  for (const char* one : all) some.push_back(ip::make_address(one));
  return some;
}

/// This host has loopback, 10.0.0.1 and 2001:db8::1.
bool is_here(const ip::address& address) {
  return address.is_loopback() || address.is_unspecified() ||
         address == ip::make_address("10.0.0.1") || address == ip::make_address("2001:db8::1");
}

host_facts facts(const char* host, std::initializer_list<const char*> resolved, int local_size,
                 bool is_open) {
  tandem::launch_info who;
  who.size = 4;
  who.address = host;
  who.port = 29500;
  who.local_size_known = local_size > 0;
  who.local_size = std::max(local_size, 1);
  return facts_of(who, is_open, addresses(resolved));
}

std::string refusal(const host_facts& known) {
  try {
    choose_listen_address(known, is_here);
  } catch (const tandem::error& e) {
    EXPECT_EQ(e.code(), tandem::errc::bad_input);
    return e.what();
  }
  return {};
}

TEST(listen_address, is_reachable_by_other_ranks) {
  struct {
    const char* host;
    std::vector<const char*> resolved;
    int local_size;  ///< of 4 ranks; 0: not set by the launcher
    bool is_open;
    const char* at;
  } const cases[]{
      // An address is used unchanged.
      {"10.0.0.1", {"10.0.0.1"}, 2, true, "10.0.0.1"},
      {"127.0.0.1", {"127.0.0.1"}, 2, false, "127.0.0.1"},
      {"::1", {"::1"}, 4, false, "::1"},
      // A name that resolves to loopback: unreachable for ranks on other hosts.
      {"debian", {"127.0.1.1"}, 2, true, "::"},
      {"debian", {"127.0.1.1"}, 0, true, "::"},
      {"debian", {"127.0.1.1"}, 4, true, "127.0.1.1"},
      {"debian", {"127.0.1.1"}, 4, false, "127.0.1.1"},
      {"debian", {"127.0.1.1"}, 0, false, "127.0.1.1"},
      {"localhost", {"::1", "127.0.0.1"}, 2, true, "127.0.0.1"},
      {"LOCALHOST.", {"::1"}, 2, false, "::1"},
      // A name of this host: its single address, or all of them.
      {"n1", {"10.0.0.1"}, 2, true, "10.0.0.1"},
      {"n1", {"2001:db8::1", "10.0.0.1"}, 2, true, "::"},
      {"n1", {"10.0.0.1", "127.0.1.1"}, 2, true, "::"},
      {"n1", {"10.0.0.9", "10.0.0.1"}, 2, true, "::"},
      {"n1", {"10.0.0.1", "127.0.1.1"}, 4, false, "127.0.1.1"},
  };
  for (const auto& c : cases) {
    host_facts known = facts(c.host, {}, c.local_size, c.is_open);
    for (const char* one : c.resolved) known.resolved.push_back(ip::make_address(one));
    const listen_address chosen = choose_listen_address(known, is_here);
    EXPECT_EQ(chosen.at.address().to_string(), c.at) << c.host << ' ' << c.local_size;
    EXPECT_EQ(chosen.at.port(), 29500);
    if (!tandem::detail::numeric_address(c.host)) {
      EXPECT_NE(chosen.text.find(c.host), std::string::npos) << chosen.text;
      EXPECT_NE(chosen.text.find(c.resolved[0]), std::string::npos) << chosen.text;
    }
  }
}

TEST(listen_address, unreachable_address_is_refused_at_once) {
  const std::string refused = refusal(facts("debian", {"127.0.1.1"}, 2, false));
  for (const char* word : {"'debian' resolves to 127.0.1.1", "loopback", "/etc/hosts", "secret"}) {
    EXPECT_NE(refused.find(word), std::string::npos) << refused;
  }
  const std::string open = refusal(facts("n1", {"10.0.0.1"}, 2, false));
  for (const char* word : {"n1:29500", "10.0.0.1", "without a secret", "TANDEM_INSECURE=1"}) {
    EXPECT_NE(open.find(word), std::string::npos) << open;
  }
  const std::string elsewhere = refusal(facts("n2", {"10.0.0.2", "2001:db8::2"}, 2, true));
  for (const char* word : {"n2:29500", "10.0.0.2, 2001:db8::2", "no interface of this host",
                           "127.0.0.1 (lo)", "start rank 0 on that host"}) {
    EXPECT_NE(elsewhere.find(word), std::string::npos) << elsewhere;
  }
}

TEST(listen_address, host_without_ipv6_listens_on_all_ipv4) {
  const auto known = facts("debian", {"127.0.1.1"}, 2, true);
  const listen_address chosen =
      choose_listen_address(known, [](const ip::address& a) { return a.is_v4(); });
  EXPECT_EQ(chosen.at.address().to_string(), "0.0.0.0");
}

TEST(listen_address, local_addresses_come_from_the_kernel) {
  EXPECT_TRUE(is_local_address(ip::make_address("127.0.0.1")));
  EXPECT_FALSE(is_local_address(ip::make_address("192.0.2.77")));  // TEST-NET-1
  EXPECT_NE(local_addresses_text().find("127.0.0.1 (lo)"), std::string::npos)
      << local_addresses_text();
}

}  // namespace
