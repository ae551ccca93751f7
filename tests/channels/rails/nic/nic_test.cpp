#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <tandem/channels.hpp>
#include <tandem/error.hpp>

#include "transports/rails/nic/bind_nic.hpp"

namespace tandem::rails {
namespace {

using asio::ip::make_address;
using asio::ip::tcp;

nic loopback() {
  for (const nic& one : find_nics()) {
    if (one.kind == nic_kind::loopback) return one;
  }
  throw error(errc::bad_input, "this machine has no loopback");
}

TEST(Nics, IncludeLoopback) {
  const nic lo = loopback();
  EXPECT_EQ(lo.name, "lo");
  EXPECT_GT(lo.index, 0);
  EXPECT_TRUE(lo.up);
  EXPECT_TRUE(lo.carrier);
  EXPECT_GE(lo.mtu, 1280);
  EXPECT_FALSE(lo.hardware);
  const auto found = std::find_if(lo.addresses.begin(), lo.addresses.end(), [](const auto& a) {
    return a.where == make_address("127.0.0.1");
  });
  ASSERT_NE(found, lo.addresses.end());
  EXPECT_EQ(found->prefix, 8u);
  EXPECT_TRUE(found->unusable.empty());
}

TEST(Nics, AreListedOnceByIndex) {
  const std::vector<nic> all = find_nics();
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_LT(all[i - 1].index, all[i].index);
  for (const nic& one : all) {
    EXPECT_FALSE(one.name.empty());
    for (const nic_address& a : one.addresses) {
      EXPECT_LE(a.prefix, a.where.is_v4() ? 32u : 128u);
      EXPECT_TRUE(in_subnet(a.where, a.where, a.prefix));
    }
  }
}

TEST(Subnets, CountPrefixBits) {
  const auto in = [](const char* where, const char* network, unsigned prefix) {
    return in_subnet(make_address(where), make_address(network), prefix);
  };
  EXPECT_TRUE(in("10.0.0.127", "10.0.0.1", 25));
  EXPECT_FALSE(in("10.0.0.128", "10.0.0.1", 25));
  EXPECT_TRUE(in("10.0.0.1", "10.0.0.1", 32));
  EXPECT_FALSE(in("10.0.0.2", "10.0.0.1", 32));
  EXPECT_TRUE(in("1.2.3.4", "9.9.9.9", 0));
  EXPECT_FALSE(in("1.2.3.4", "::", 0));
  EXPECT_TRUE(in("fd00::1", "fd00::ffff", 64));
  EXPECT_FALSE(in("fd00:0:0:1::1", "fd00::1", 64));
  EXPECT_TRUE(in("fd00::1", "fd00::1", 128));
}

TEST(BoundSockets, ConnectFromTheirAddress) {
  asio::io_context loop;
  const nic lo = loopback();
  tcp::acceptor acceptor(loop, {make_address("127.0.0.1"), 0});
  for (const bool peer_is_local : {true, false}) {
    tcp::socket fresh(loop, tcp::v4());
    const binding got = bind_nic(fresh, lo, make_address("127.0.0.2"), peer_is_local);
    EXPECT_TRUE(got.address);
    EXPECT_EQ(got.device, got.why_not.empty());
    if (peer_is_local) {
      EXPECT_EQ(got.why_not, "the peer is on this machine");
    }
    fresh.connect(acceptor.local_endpoint());
    EXPECT_EQ(fresh.local_endpoint().address(), make_address("127.0.0.2"));
    EXPECT_EQ(acceptor.accept().remote_endpoint().address(), make_address("127.0.0.2"));
  }
}

TEST(BoundSockets, RefuseForeignAddress) {
  asio::io_context loop;
  tcp::socket fresh(loop, tcp::v4());
  try {
    bind_nic(fresh, loopback(), make_address("203.0.113.7"), true);
    FAIL() << "bound";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::bad_input);
    EXPECT_NE(std::string(e.what()).find("203.0.113.7 cannot be bound to lo"), std::string::npos);
  }
}

TEST(Here, IncludesLoopbackAndInterfaceAddresses) {
  nic one;
  one.addresses = {{make_address("10.0.0.1"), 24, ""}};
  EXPECT_TRUE(is_local_address({one}, make_address("10.0.0.1")));
  EXPECT_TRUE(is_local_address({}, make_address("127.0.0.9")));
  EXPECT_FALSE(is_local_address({one}, make_address("10.0.0.2")));
}

TEST(Leaving, IsCounted) {
  EXPECT_EQ(check_egress(1000, 2000, 1000), egress::as_bound);
  EXPECT_EQ(check_egress(1000, 1999, 1000), egress::elsewhere);
  EXPECT_EQ(check_egress(1000, 999, 0), egress::unknown);
  EXPECT_EQ(check_egress(std::nullopt, 5, 1), egress::unknown);
  EXPECT_EQ(check_egress(5, std::nullopt, 1), egress::unknown);
  EXPECT_FALSE(tx_bytes_of("no/such").has_value());
  EXPECT_FALSE(tx_bytes_of("nosuchnic").has_value());
}

TEST(Leaving, CountsLoopbackAsLocal) {
  const std::optional<std::uint64_t> before = tx_bytes_of("lo");
  if (!before) GTEST_SKIP() << "the kernel shows no counters of lo";
  asio::io_context loop;
  tcp::acceptor acceptor(loop, {make_address("127.0.0.1"), 0});
  tcp::socket here(loop);
  here.connect(acceptor.local_endpoint());
  tcp::socket there = acceptor.accept();
  std::vector<char> bytes(4096);
  asio::write(here, asio::buffer(bytes));
  asio::read(there, asio::buffer(bytes));
  EXPECT_EQ(check_egress(before, tx_bytes_of("lo"), bytes.size()), egress::as_bound);
}

TEST(Explained, EveryInterfaceHasADecision) {
  settings options;
  const std::vector<rail_choice> all = explain_rails(options);
  EXPECT_EQ(all.size(), find_nics().size());
  std::size_t chosen = 0;
  for (const rail_choice& one : all) {
    EXPECT_TRUE(one.reason.starts_with(one.chosen ? "chosen: " : "left out: ")) << one.reason;
    chosen += one.chosen ? 1 : 0;
    EXPECT_EQ(one.chosen, one.kind == "loopback") << one.interface << " without a secret";
  }
  EXPECT_EQ(chosen, 1u);
  options.rails = "nosuchnic";
  EXPECT_THROW(explain_rails(options), error);
}

}  // namespace
}  // namespace tandem::rails
