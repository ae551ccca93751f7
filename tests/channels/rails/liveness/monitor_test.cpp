#include "transports/rails/liveness/monitor.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <thread>

#include "transports/rails/core.hpp"
#include "transports/rails/liveness/message.hpp"

namespace tandem::rails {
namespace {

using namespace std::chrono_literals;
using liveness::message;
using liveness::message_bytes;
using liveness::message_kind;
using liveness::monitor;

const secret key(std::string_view("0123456789abcdef"));

TEST(LivenessMessage, RoundTripsAndRefusesAnyDamage) {
  const message sent{message_kind::answer, 3, 70'000, 0x0123'4567'89ab'cdef, 12'345};
  const auto bytes = encode(sent, key);
  EXPECT_EQ(liveness::decode(bytes, key), sent);
  EXPECT_FALSE(liveness::decode(bytes, secret(std::string_view("0123456789abcdeF"))));
  for (std::size_t i = 0; i < 8 * message_bytes; ++i) {
    auto damaged = bytes;
    damaged[i / 8] ^= std::byte(1 << i % 8);
    EXPECT_FALSE(liveness::decode(damaged, key)) << "bit " << i;
  }
  for (std::size_t length = 0; length < message_bytes; ++length) {
    EXPECT_FALSE(liveness::decode(std::span(bytes).first(length), key)) << length;
  }
  // Authenticated, but no kind of message.
  message unknown = sent;
  unknown.kind = static_cast<message_kind>(3);
  EXPECT_FALSE(liveness::decode(encode(unknown, key), key));
}

/// A free UDP port of the loopback address, at which the monitor listens.
std::uint16_t listen(monitor& by, const asio::ip::address& where) {
  for (std::uint16_t port = 40'000; port < 60'000; port += 7) {
    if (by.listen(where, port)) return port;
  }
  return 0;
}

bool eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

class LivenessMonitor : public testing::Test {
 protected:
  void connect(monitor& from, int peer, std::uint16_t port) const {
    from.set_routes(peer, {{here, {here, port}}});
  }
  const asio::ip::address here = asio::ip::make_address("127.0.0.1");
};

TEST_F(LivenessMonitor, AnswersForALoopThatDoesNotRun) {
  monitor zero(0, 2, key), one(1, 2, key);
  ASSERT_NE(listen(zero, here), 0);
  const std::uint16_t port = listen(one, here);
  ASSERT_NE(port, 0);
  EXPECT_FALSE(zero.listen(here, port)) << "the port is taken";
  zero.start();
  one.start();
  zero.probe(1);  // no route yet: nothing is sent
  connect(zero, 1, port);
  EXPECT_FALSE(zero.seen(1));
  one.loop_runs(monitor::clock::now() - 5s);
  zero.probe(1);
  ASSERT_TRUE(eventually([&] { return zero.seen(1).has_value(); }));
  EXPECT_GE(zero.seen(1)->busy_for, 5s);
  EXPECT_LT(zero.seen(1)->busy_for, 60s);
  EXPECT_FALSE(zero.seen(0));
  EXPECT_FALSE(one.seen(0)) << "a probe is no answer";
}

TEST_F(LivenessMonitor, IgnoresUnauthenticatedPeersAndOtherRanks) {
  monitor zero(0, 3, key), other(1, 3, secret(std::string_view("fedcba9876543210")));
  monitor two(2, 3, key);
  ASSERT_NE(listen(zero, here), 0);
  const std::uint16_t port_of_other = listen(other, here), port_of_two = listen(two, here);
  for (monitor* each : {&zero, &other, &two}) each->start();
  connect(zero, 1, port_of_other);
  zero.probe(1);
  zero.set_routes(1, {{here, {here, port_of_two}}});  // the address of another rank
  zero.probe(1);
  connect(zero, 2, port_of_two);
  zero.probe(2);
  ASSERT_TRUE(eventually([&] { return zero.seen(2).has_value(); }));
  EXPECT_FALSE(zero.seen(1));
}

TEST_F(LivenessMonitor, SurvivesAnyDatagram) {
  monitor zero(0, 2, key), one(1, 2, key);
  ASSERT_NE(listen(zero, here), 0);
  const std::uint16_t port = listen(one, here);
  zero.start();
  one.start();
  const int from = ::socket(AF_INET, SOCK_DGRAM, 0);
  const asio::ip::udp::endpoint to(here, port);
  const std::vector<std::byte> bytes(2000, std::byte{0x54});
  for (std::size_t length = 0; length < bytes.size(); length += 13) {
    ::sendto(from, bytes.data(), length, 0, to.data(), static_cast<socklen_t>(to.size()));
  }
  message outside{message_kind::probe, 99, 1, 7};
  for (const std::uint32_t sender : {2u, 99u, ~0u}) {
    outside.from = sender;
    const auto encoded = encode(outside, key);
    ::sendto(from, encoded.data(), encoded.size(), 0, to.data(), static_cast<socklen_t>(to.size()));
  }
  ::close(from);
  connect(zero, 1, port);
  ASSERT_TRUE(eventually([&] {
    zero.probe(1);
    return zero.seen(1).has_value();
  }));
}

/// The clock of a core whose peer sends nothing.
class Silence : public testing::Test {
 protected:
  Silence() { core_.lane_up(0, 1, now_); }
  void pass(core::time_point::duration time) {
    for (const auto end = now_ + time; now_ < end;) {
      now_ += bounds_.heartbeat() / 2;
      core_.tick(now_);
    }
  }
  const timeouts bounds_;
  core::time_point now_{1h};
  core core_{protocol::limits{}, protocol::identity{0, 1, "1 lane"}, 300s, 1, bounds_, false};
};

TEST_F(Silence, LosesAPeerThatDoesNotAnswer) {
  EXPECT_FALSE(core_.wants_probe(now_));
  pass(bounds_.suspect());
  EXPECT_TRUE(core_.wants_probe(now_));
  pass(1700ms);
  EXPECT_FALSE(core_.peer_is_silent());
  pass(100ms);
  EXPECT_TRUE(core_.peer_is_silent());
}

TEST_F(Silence, KeepsAPeerWhoseProcessAnswers) {
  for (int i = 0; i < 600; ++i) {
    pass(100ms);
    core_.peer_answered(now_, 1s);
    ASSERT_FALSE(core_.peer_is_silent());
    ASSERT_TRUE(core_.is_live(0)) << "its lanes stay";
    ASSERT_FALSE(core_.must_close(0));
  }
  EXPECT_EQ(core_.peer_busy_for(now_), 60s);
  pass(1900ms);
  EXPECT_FALSE(core_.peer_is_silent());
  pass(200ms);
  EXPECT_TRUE(core_.peer_is_silent()) << "it answers no longer";
}

/// Its loop runs, and yet nothing arrives: the network loses what it sends.
TEST_F(Silence, LosesAPeerWhoseLoopRuns) {
  for (int i = 0; i < 19; ++i) {
    pass(100ms);
    core_.peer_answered(now_, 50ms);
    ASSERT_FALSE(core_.peer_is_silent());
    EXPECT_EQ(core_.peer_busy_for(now_), 0s);
  }
  pass(100ms);
  EXPECT_TRUE(core_.peer_is_silent());
  EXPECT_TRUE(core_.peer_loop_runs(now_));
}

TEST_F(Silence, EndsWithTheNextMessage) {
  pass(1500ms);
  core_.peer_answered(now_, 1s);
  EXPECT_GT(core_.peer_busy_for(now_), 1s);
  pass(100ms);
  core_.on_receive(0, now_);
  EXPECT_EQ(core_.peer_busy_for(now_), 0s);
  EXPECT_FALSE(core_.wants_probe(now_));
}

}  // namespace
}  // namespace tandem::rails
