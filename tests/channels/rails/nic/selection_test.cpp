#include "transports/rails/nic/selection.hpp"

#include <gtest/gtest.h>

#include <tandem/error.hpp>

namespace tandem::rails {
namespace {

nic make(const std::string& name, nic_kind kind, const std::vector<std::string>& addresses,
         std::int64_t speed_mbit = -1) {
  static int index = 0;
  nic one;
  one.name = name;
  one.index = ++index;
  one.up = one.carrier = true;
  one.kind = kind;
  one.speed_mbit = speed_mbit;
  one.hardware =
      kind == nic_kind::ethernet || kind == nic_kind::infiniband_ip || kind == nic_kind::wireless;
  for (const std::string& text : addresses) {
    const std::size_t slash = text.find('/');
    nic_address a;
    a.where = asio::ip::make_address(text.substr(0, slash));
    a.prefix = static_cast<unsigned>(std::stoi(text.substr(slash + 1)));
    if (text.starts_with("fe80") || text.starts_with("169.254")) a.unusable = "link-local";
    one.addresses.push_back(a);
  }
  return one;
}

/// A server with two ports and other typical interfaces.
std::vector<nic> server() {
  std::vector<nic> all{make("lo", nic_kind::loopback, {"127.0.0.1/8", "::1/128"}),
                       make("eth0", nic_kind::ethernet, {"10.0.0.1/24", "fd00::1/64"}, 25000),
                       make("eth1", nic_kind::ethernet, {"10.0.1.1/24", "fe80::1/64"}, 25000),
                       make("eth2", nic_kind::ethernet, {"10.0.2.1/24"}, 25000),
                       make("docker0", nic_kind::bridge, {"172.17.0.1/16"}),
                       make("wlan0", nic_kind::wireless, {"192.168.1.5/24"}, 1000)};
  all[3].up = false;
  return all;
}

selection chosen_of(const std::vector<nic>& nics, std::string_view words,
                    bool loopback_only = false) {
  return choose(nics, parse_rails(words), loopback_only);
}

/// The names of the rails in order, separated by blanks.
std::string rails_of(const std::vector<nic>& nics, std::string_view words,
                     bool loopback_only = false) {
  std::string names;
  for (const rail_end& one : chosen_of(nics, words, loopback_only).rails) {
    names += (names.empty() ? "" : " ") + nics[one.nic].name;
  }
  return names;
}

std::string why(const std::vector<nic>& nics, const std::string& name, std::string_view words = "",
                bool loopback_only = false) {
  const selection chosen = chosen_of(nics, words, loopback_only);
  EXPECT_EQ(chosen.decisions.size(), nics.size());
  for (std::size_t i = 0; i < nics.size(); ++i) {
    if (nics[i].name == name) return chosen.decisions[i].why;
  }
  return "no such interface in the test";
}

std::string error_text(std::string_view words, const std::vector<nic>& nics = server()) {
  try {
    choose(nics, parse_rails(words), false);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::bad_option);
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  return "no error";
}

TEST(RailsByThemselves, UsePortsThatAreUpAndExplainOthers) {
  const std::vector<nic> all = server();
  EXPECT_EQ(rails_of(all, ""), "eth0 eth1");
  EXPECT_EQ(rails_of(all, "auto"), "eth0 eth1");
  EXPECT_EQ(why(all, "eth0"), "chosen: up, ethernet, 10.0.0.1/24, fd00::1/64");
  EXPECT_EQ(why(all, "eth1"), "chosen: up, ethernet, 10.0.1.1/24");
  EXPECT_EQ(why(all, "eth2"), "left out: down");
  EXPECT_EQ(why(all, "lo"), "left out: loopback; 2 ethernet rails preferred");
  EXPECT_EQ(why(all, "wlan0"), "left out: 1000 Mbit/s wireless; 2 ethernet rails preferred");
  EXPECT_EQ(why(all, "docker0"), "left out: bridge; name it in TANDEM_RAILS to use it");
}

TEST(RailsByThemselves, RequireCarrierAndAddress) {
  std::vector<nic> all = server();
  all[1].carrier = false;
  all[2].addresses.erase(all[2].addresses.begin());
  EXPECT_EQ(why(all, "eth0"), "left out: no carrier");
  EXPECT_EQ(why(all, "eth1"), "left out: only link-local addresses");
  EXPECT_EQ(rails_of(all, ""), "wlan0");
  all[2].addresses.clear();
  EXPECT_EQ(why(all, "eth1"), "left out: no address");
  all[2].master = "bond0";
  EXPECT_EQ(why(all, "eth1"), "left out: no address of its own: part of bond0");
}

TEST(RailsByThemselves, FallBackByLevel) {
  const nic lo = make("lo", nic_kind::loopback, {"127.0.0.1/8"});
  nic pair = make("eth0", nic_kind::veth, {"10.0.0.1/24"}, 10000);
  EXPECT_EQ(rails_of({lo, pair}, ""), "lo");
  EXPECT_NE(why({lo, pair}, "eth0").find("veth pair of this machine; name it"), std::string::npos);
  pair.leaves_namespace = true;
  EXPECT_EQ(rails_of({lo, pair}, ""), "eth0");
  const nic tunnel = make("wg0", nic_kind::tunnel, {"10.9.0.1/24"});
  EXPECT_EQ(rails_of({lo, tunnel}, ""), "wg0");
  EXPECT_EQ(rails_of({lo, tunnel, pair}, ""), "eth0");
  EXPECT_EQ(why({lo, tunnel, pair}, "wg0"), "left out: tunnel; 1 veth rail preferred");
  nic port = make("eth9", nic_kind::ethernet, {"10.1.0.1/24"});
  EXPECT_EQ(rails_of({lo, tunnel, pair, port}, ""), "eth9");
  nic bridge = make("br0", nic_kind::bridge, {"10.2.0.1/24"});
  EXPECT_EQ(rails_of({lo, bridge}, ""), "lo");
  bridge.hardware = true;
  EXPECT_EQ(rails_of({lo, bridge}, ""), "br0");
}

TEST(RailsByThemselves, HaveOneKindAndSpeedClass) {
  const nic slow = make("eth0", nic_kind::ethernet, {"10.0.0.1/24"}, 1000);
  const nic fast = make("eth1", nic_kind::ethernet, {"10.0.1.1/24"}, 100000);
  const nic quarter = make("eth2", nic_kind::ethernet, {"10.0.2.1/24"}, 25000);
  const nic unknown = make("eth3", nic_kind::ethernet, {"10.0.3.1/24"});
  const nic infiniband = make("ib0", nic_kind::infiniband_ip, {"10.0.4.1/24"}, 200000);
  EXPECT_EQ(rails_of({slow, fast, quarter, unknown}, ""), "eth1 eth2 eth3");
  EXPECT_EQ(why({slow, fast}, "eth0"),
            "left out: 1000 Mbit/s, others 100000 Mbit/s; name it in TANDEM_RAILS to use it");
  EXPECT_EQ(rails_of({slow, fast, infiniband}, ""), "ib0");
  EXPECT_EQ(why({fast, infiniband}, "eth1"),
            "left out: 100000 Mbit/s ethernet; 1 infiniband-ip rail preferred");
  nic slower = infiniband;
  slower.speed_mbit = 40000;
  EXPECT_EQ(rails_of({slow, fast, slower}, ""), "eth1");
  EXPECT_EQ(rails_of({slow, slower}, ""), "ib0");
}

TEST(RailsByThemselves, VlanAndItsPortAreNotBothUsed) {
  const nic port = make("eth0", nic_kind::ethernet, {"10.0.0.1/24"});
  nic vlan = make("eth0.7", nic_kind::vlan, {"10.7.0.1/24"});
  vlan.hardware = true;
  vlan.lower = {"eth0"};
  EXPECT_EQ(rails_of({port, vlan}, ""), "eth0");
  EXPECT_NE(why({port, vlan}, "eth0.7").find("shares the port of eth0"), std::string::npos);
  nic bare = port;
  bare.addresses.clear();
  EXPECT_EQ(rails_of({bare, vlan}, ""), "eth0.7");
  EXPECT_EQ(rails_of({port, vlan}, "eth0.7,eth0"), "eth0.7 eth0");
  nic second = vlan;
  second.name = "eth0.8";
  EXPECT_EQ(rails_of({bare, vlan, second}, ""), "eth0.7");
  EXPECT_NE(why({bare, vlan, second}, "eth0.8").find("shares the port of eth0.7"),
            std::string::npos);
}

TEST(RailsListed, AreUsedAsListed) {
  const std::vector<nic> all = server();
  EXPECT_EQ(rails_of(all, "eth1,eth0"), "eth1 eth0");
  EXPECT_EQ(rails_of(all, "docker0,wlan0"), "docker0 wlan0");
  EXPECT_EQ(rails_of(all, "eth*"), "eth0 eth1");
  EXPECT_EQ(rails_of(all, "10.0.1.1"), "eth1");
  EXPECT_EQ(rails_of(all, "10.0.0.0/23"), "eth0 eth1");
  EXPECT_EQ(rails_of(all, "fd00::/64"), "eth0");
  EXPECT_EQ(rails_of(all, "lo"), "lo lo");
  EXPECT_EQ(why(all, "eth0", "eth1"), "left out: not in the list of rails");
  EXPECT_EQ(why(all, "eth2", "eth2"), "left out: down");
  const selection by_subnet = chosen_of(all, "fd00::/64");
  ASSERT_EQ(by_subnet.rails.size(), 1u);
  ASSERT_EQ(by_subnet.rails[0].addresses.size(), 1u);
  EXPECT_EQ(by_subnet.rails[0].addresses[0].where.to_string(), "fd00::1");
}

TEST(RailsListed, LoopbackAddressesAreSeparateRails) {
  const std::vector<nic> all = server();
  const selection chosen = chosen_of(all, "127.0.0.2,127.0.0.1,127.0.0.3");
  ASSERT_EQ(chosen.rails.size(), 3u);
  for (const rail_end& one : chosen.rails) {
    EXPECT_EQ(all[one.nic].name, "lo");
    ASSERT_EQ(one.addresses.size(), 1u);
    EXPECT_EQ(one.addresses[0].prefix, 8u);
  }
  EXPECT_EQ(chosen.rails[0].addresses[0].where.to_string(), "127.0.0.2");
  EXPECT_EQ(chosen_of(all, "127.0.0.2,127.0.0.1,127.0.0.3,2").rails.size(), 2u);
}

TEST(RailsExcluded, LeaveOthersUnchanged) {
  const std::vector<nic> all = server();
  EXPECT_EQ(rails_of(all, "^eth0"), "eth1");
  EXPECT_EQ(why(all, "eth0", "^eth0"), "left out: excluded by ^eth0");
  EXPECT_EQ(rails_of(all, "^10.0.1.0/24"), "eth0");
  EXPECT_EQ(rails_of(all, "^10.0.0.1"), "eth0 eth1");  // by its other address
  EXPECT_EQ(rails_of(all, "^eth*"), "wlan0");
  EXPECT_EQ(rails_of(all, "eth*,^eth0"), "eth1");
  EXPECT_EQ(rails_of(all, "1"), "eth0");
  EXPECT_EQ(why(all, "eth1", "1"), "left out: more than 1 rail");
  EXPECT_EQ(rails_of(all, "^eth0,1"), "eth1");
  const selection chosen = chosen_of(all, "^ehh1");
  ASSERT_EQ(chosen.notes.size(), 1u);
  EXPECT_EQ(chosen.notes[0], "^ehh1 excludes no interface here; did you mean ^eth1?");
  EXPECT_TRUE(chosen_of(all, "^virbr0,^10.200.0.0/16").notes.empty());
}

TEST(RailsOfAJobWithoutSecret, AreLoopbackOnly) {
  const std::vector<nic> all = server();
  EXPECT_EQ(rails_of(all, "", true), "lo");
  EXPECT_EQ(rails_of(all, "eth0", true), "");
  EXPECT_EQ(rails_of(all, "lo,eth0", true), "lo lo");
  EXPECT_EQ(why(all, "eth0", "", true),
            "left out: without a job secret only loopback is used; TANDEM_INSECURE=1 lifts this");
  EXPECT_EQ(why(all, "eth2", "", true), "left out: down");
}

TEST(RailWords, ErrorsNameValidValues) {
  EXPECT_EQ(error_text("ehh0"), "rails ehh0: no such interface; did you mean eth0?");
  EXPECT_NE(error_text("xyzzy").find("there are: lo, eth0"), std::string::npos);
  EXPECT_NE(error_text("zz*").find("no such interface"), std::string::npos);
  EXPECT_NE(error_text("10.0.0.9").find("no interface has this address"), std::string::npos);
  EXPECT_NE(error_text("10.8.0.0/16").find("no interface is in this subnet"), std::string::npos);
  EXPECT_NE(error_text("10.0.0.300").find("not an address"), std::string::npos);
  EXPECT_NE(error_text("fd00:::1").find("not an address"), std::string::npos);
  EXPECT_NE(error_text("10.0.0.0/33").find("0 to 32 bits"), std::string::npos);
  EXPECT_NE(error_text("10.0.0.0/").find("0 to 32 bits"), std::string::npos);
  EXPECT_NE(error_text("eth0/24").find("not an address before the /"), std::string::npos);
  EXPECT_NE(error_text("eth0,,eth1").find("comma too many"), std::string::npos);
  EXPECT_NE(error_text("^").find("nothing after the ^"), std::string::npos);
  EXPECT_NE(error_text("0").find("outside 1 to 16 rails"), std::string::npos);
  EXPECT_NE(error_text("2,3").find("a second number"), std::string::npos);
  EXPECT_NE(error_text("sixteenletters99").find("longer than"), std::string::npos);
  EXPECT_NE(error_text("fe80::1%lo").find("link-local"), std::string::npos);
  EXPECT_NE(error_text("fe80::1").find("link-local"), std::string::npos);
  EXPECT_NE(error_text("[fd00::9]").find("no interface has this address"), std::string::npos);
  EXPECT_NE(error_text("[fd00::9]:29500").find("rails have no port"), std::string::npos);
  EXPECT_NE(error_text("[fd00::9").find("unclosed bracket"), std::string::npos);
  EXPECT_NE(error_text("eth[01]").find("not an interface name"), std::string::npos);
}

TEST(RailsRequired, ErrorsExplainMissingRails) {
  const std::vector<nic> all = server();
  EXPECT_NO_THROW(require_rails(all, chosen_of(all, "")));
  try {
    require_rails(all, chosen_of(all, "eth2"));
    FAIL() << "no error";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::bad_option);
    EXPECT_NE(std::string(e.what()).find("eth2 left out: down"), std::string::npos) << e.what();
  }
  EXPECT_THROW(require_rails({}, choose({}, {}, false)), error);
}

}  // namespace
}  // namespace tandem::rails
