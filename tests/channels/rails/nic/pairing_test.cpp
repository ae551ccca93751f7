#include "transports/rails/nic/pairing.hpp"

#include <gtest/gtest.h>

#include <random>
#include <tandem/error.hpp>

#include "transports/rails/nic/rail_spec.hpp"

namespace tandem::rails {
namespace {

using rails_list = std::vector<published_rail>;

rails_list read(const std::string& rails) {
  return decode("rails 1 " + rails);
}

/// "eth0-eth1/s eth2-eth2/o": pairs with their names, by subnet or by order.
std::string pairs_of(const rails_list& local, const rails_list& remote) {
  std::string text;
  for (const rail_pair& p : pair_rails(local, remote).pairs) {
    text += (text.empty() ? "" : " ") + local[p.local].interface + "-" +
            remote[p.remote].interface + (p.same_subnet ? "/s" : "/o");
  }
  return text;
}

errc refusal(const std::string& line) {
  try {
    decode(line);
  } catch (const error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return static_cast<errc>(e.code().value());
  }
  ADD_FAILURE() << "accepted: " << line.substr(0, 80);
  return errc{};
}

TEST(RailPairs, PreferSubnetsThenOrder) {
  const rails_list a = read("eth0=10.0.0.1/24:1 eth1=10.0.1.1/24:1 eth2=10.9.9.1/24:1");
  const rails_list b = read("x0=10.0.1.2/24:1 x1=10.0.0.2/24:1 x2=172.16.0.1/16:1");
  EXPECT_EQ(pairs_of(a, b), "eth0-x1/s eth1-x0/s eth2-x2/o");
}

TEST(RailPairs, OfOneSubnetPairByPosition) {
  const rails_list a = read("eth0=10.0.0.1/16:1 eth1=10.0.1.1/16:1");
  const rails_list b = read("eth0=10.0.0.2/16:1 eth1=10.0.1.2/16:1");
  EXPECT_EQ(pairs_of(a, b), "eth0-eth0/s eth1-eth1/s");
}

TEST(RailPairs, UseEndpointsOfSharedSubnet) {
  const rails_list a = read("eth0=10.0.0.1/24:1+fd00::1/64:2");
  const rails_list b = read("eth0=10.5.0.2/24:3+fd00::2/64:4");
  const pairing found = pair_rails(a, b);
  ASSERT_EQ(found.pairs.size(), 1u);
  EXPECT_EQ(found.pairs[0], (rail_pair{0, 0, 1, 1, true}));
}

TEST(RailPairs, ReportUnpairedRails) {
  const rails_list a =
      read("lo=127.0.0.1/8:1 eth0=10.0.0.1/24:1 eth1=10.0.1.1/24:1 six=fd00::1/64:1");
  const rails_list b = read("eth0=10.0.0.2/24:1");
  const pairing found = pair_rails(a, b);
  EXPECT_EQ(pairs_of(a, b), "eth0-eth0/s");
  ASSERT_EQ(found.unpaired.size(), 3u);
  EXPECT_EQ(found.unpaired[0].why, "lo: the peer has no rail with a loopback address");
  EXPECT_EQ(found.unpaired[1].why, "eth1: the peer has only 1 rail");
  EXPECT_EQ(found.unpaired[2].why,
            "six: the peer has no rail with an address that this one could reach");
  const pairing back = pair_rails(b, a);
  ASSERT_EQ(back.unpaired.size(), 3u);
  EXPECT_FALSE(back.unpaired[0].is_local);
  EXPECT_EQ(back.unpaired[1].why, "eth1: this rank has only 1 rail");
  EXPECT_EQ(pair_rails({}, b).unpaired.at(0).why, "eth0: this rank has no rail");
}

TEST(RailPairs, PairLoopbackWithLoopbackOnly) {
  EXPECT_EQ(pairs_of(read("lo=127.0.0.1/8:1"), read("eth0=10.0.0.1/8:1")), "");
  EXPECT_EQ(pairs_of(read("lo=127.0.0.1/8:1 lo=127.0.0.2/8:2"),
                     read("lo=127.0.0.1/8:3 lo=127.0.0.2/8:4")),
            "lo-lo/s lo-lo/s");
}

rails_list random_rails(std::mt19937& random) {
  const auto below = [&random](unsigned n) { return static_cast<unsigned>(random() % n); };
  rails_list all(below(6));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].interface = "eth" + std::to_string(i);
    const unsigned endpoints = 1 + below(3);
    for (unsigned d = 0; d < endpoints; ++d) {
      listen_endpoint one;
      one.port = static_cast<std::uint16_t>(1 + below(3));
      one.prefix = below(4) == 0 ? 16 : 24;
      const unsigned family = below(8);
      one.where = asio::ip::address_v4((family == 0 ? 0x7f000000u : 0x0a000000u) + (below(3) << 8) +
                                       1 + below(3));
      if (family > 5) {
        one.where = asio::ip::make_address("fd00::" + std::to_string(below(3)) + ":1").to_v6();
        one.prefix = 112;
      }
      all[i].endpoints.push_back(one);
    }
  }
  return all;
}

TEST(RailPairs, AreSymmetric) {
  std::mt19937 random(7);
  std::size_t pairs = 0;
  for (int round = 0; round < 20'000; ++round) {
    const rails_list a = random_rails(random);
    const rails_list b = round % 10 == 0 ? a : random_rails(random);
    const pairing here = pair_rails(a, b), there = pair_rails(b, a);
    ASSERT_EQ(here.pairs.size(), there.pairs.size());
    pairs += here.pairs.size();
    for (std::size_t i = 0; i < here.pairs.size(); ++i) {
      const rail_pair& p = there.pairs[i];
      const rail_pair turned{p.remote, p.local, p.remote_endpoint_index, p.local_endpoint_index,
                             p.same_subnet};
      ASSERT_EQ(here.pairs[i], turned) << encode(a) << " | " << encode(b);
      const listen_endpoint& local = a[p.remote].endpoints.at(p.remote_endpoint_index);
      const listen_endpoint& remote = b[p.local].endpoints.at(p.local_endpoint_index);
      ASSERT_EQ(local.where.is_v4(), remote.where.is_v4());
      ASSERT_EQ(local.where.is_loopback(), remote.where.is_loopback());
    }
    ASSERT_EQ(here.unpaired.size() + 2 * here.pairs.size(), a.size() + b.size());
    ASSERT_EQ(here.unpaired.size(), there.unpaired.size());
  }
  EXPECT_GT(pairs, 20'000u);
}

TEST(RailLines, RoundTrip) {
  const std::string line = "rails 1 eth0=10.1.0.2/24:4000+fd00::2/64:4001 ib0=10.2.0.2/16:65535";
  const rails_list rails = decode(line);
  ASSERT_EQ(rails.size(), 2u);
  EXPECT_EQ(rails[0].endpoints.size(), 2u);
  EXPECT_EQ(rails[0].endpoints[1].port, 4001);
  EXPECT_EQ(encode(rails), line);
  EXPECT_TRUE(decode(encode({})).empty());
  std::mt19937 random(3);
  for (int round = 0; round < 1000; ++round) {
    const rails_list some = random_rails(random);
    ASSERT_EQ(decode(encode(some)), some);
  }
}

TEST(RailLines, OddNamesAndTooManyRailsAreReadable) {
  rails_list rails(max_rails + 4, published_rail{"a= b+\n", {}});
  for (published_rail& one : rails) {
    one.endpoints.assign(max_endpoints + 3,
                         listen_endpoint{asio::ip::make_address("ffff::"
                                                                "1111:2222:3333:4444:5555:6666"),
                                         128, 65535});
    for (listen_endpoint& d : one.endpoints)
      d.where = asio::ip::make_address("fd00:1111:2222:3333:4444:5555:6666:7777");
  }
  const std::string line = encode(rails);
  EXPECT_LE(line.size(), max_published_bytes);
  const rails_list back = decode(line);
  ASSERT_EQ(back.size(), max_rails);
  EXPECT_EQ(back[0].interface, "a??b??");
  EXPECT_EQ(back[0].endpoints.size(), max_endpoints);
}

TEST(RailLines, HostileInputIsRefused) {
  for (const char* const line : {"",
                                 "rails",
                                 "rails ",
                                 "rails x",
                                 "rail 1",
                                 "rails 1 eth0",
                                 "rails 1 =10.0.0.1/24:1",
                                 "rails 1 eth0=",
                                 "rails 1 eth0=10.0.0.1",
                                 "rails 1 eth0=10.0.0.1/24",
                                 "rails 1 eth0=10.0.0.1:1",
                                 "rails 1 eth0=10.0.0.1/33:1",
                                 "rails 1 eth0=10.0.0.1/24:0",
                                 "rails 1 eth0=10.0.0.1/24:65536",
                                 "rails 1 eth0=10.0.0.1/24:-1",
                                 "rails 1 eth0=10.0.0.1/24:1x",
                                 "rails 1 eth0=0.0.0.0/0:1",
                                 "rails 1 eth0=224.0.0.1/4:1",
                                 "rails 1 eth0=fe80::1%lo/64:1",
                                 "rails 1 eth0=fd00::1/129:1",
                                 "rails 1 et\x01h=10.0.0.1/24:1",
                                 "rails 1 sixteenletters99=10.0.0.1/24:1",
                                 "rails 1  eth0=10.0.0.1/24:1"}) {
    EXPECT_EQ(refusal(line), errc::protocol_violation) << line;
  }
  EXPECT_EQ(refusal("rails 2 eth0=whatever"), errc::version_mismatch);
  std::string many = "rails 1";
  for (std::size_t i = 0; i <= max_rails; ++i) many += " e=10.0.0.1/24:1";
  EXPECT_EQ(refusal(many), errc::protocol_violation);
  std::string endpoints = "rails 1 e=10.0.0.1/24:1";
  for (std::size_t i = 0; i < max_endpoints; ++i) endpoints += "+10.0.0.1/24:1";
  EXPECT_EQ(refusal(endpoints), errc::protocol_violation);
  EXPECT_EQ(refusal("rails 1 " + std::string(max_published_bytes, 'x')), errc::protocol_violation);
}

TEST(RailLines, DamagedInputIsReadOrRefused) {
  const std::string good = "rails 1 eth0=10.1.0.2/24:4000+fd00::2/64:4001 ib0=10.2.0.2/16:65535";
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string line = good;
    for (int hits = 0; hits < 3; ++hits) line[random() % line.size()] = static_cast<char>(random());
    line.resize(random() % (line.size() + 1));
    try {
      EXPECT_LE(decode(line).size(), max_rails);
    } catch (const error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace tandem::rails
