// Standby lanes carry packets only while no other lane is up and are not counted until then.

#include "support/rails_pair.hpp"

namespace tandem::test {
namespace {

constexpr std::uint16_t last = 2;  // index of the standby lane, of three lanes

/// Lanes 0 and 1, and the standby lane 2.
class standby : public testing::Test {
 protected:
  standby() : pair_(protocol::limits{}, 3, rails::timeouts{}, {false, false, true}) {}

  void heal(std::uint16_t lane, bool is_standby) {
    pair_.is_standby[lane] = is_standby;
    pair_.heal(lane);
  }
  void lose(std::uint16_t lane) {
    for (const int side : {0, 1}) pair_.close(side, lane);
  }

  /// Sends one message from the first end to the second; returns the bytes on each lane.
  std::array<std::uint64_t, 3> carried(std::size_t bytes) {
    scripted send(operation::kind::send, 1, std::string(bytes, 'x'));
    scripted receive(operation::kind::recv, 1, std::string(bytes, ' '));
    const std::array<std::uint64_t, 3> before = arrived();
    pair_.start(1, receive);
    pair_.start(0, send);
    for (int round = 0; round < 50 && pair_.good; ++round) move();
    EXPECT_EQ(receive.got, std::string(bytes, 'x'));
    pair_.pass_time(rails::timeouts{}.heartbeat());  // short messages are acknowledged by then
    for (int round = 0; round < 2; ++round) move();
    std::array<std::uint64_t, 3> now = arrived();
    for (std::size_t i = 0; i < now.size(); ++i) now[i] -= before[i];
    return now;
  }
  /// Delivers everything in flight; lost lanes do not recover by themselves.
  void move() {
    for (const int side : {0, 1}) {
      for (std::uint16_t i = 0; i < pair_.lanes(); ++i) {
        while (pair_.write(side, i)) {
        }
        pair_.deliver(1 - side, i, ~std::size_t{0});
      }
    }
  }

  rails_pair pair_;

 private:
  std::array<std::uint64_t, 3> arrived() {
    std::array<std::uint64_t, 3> all{};
    for (std::uint16_t i = 0; i < 3; ++i) all[i] = pair_.core(0).sent().acknowledged_bytes(i);
    return all;
  }
};

TEST_F(standby, carries_nothing_while_another_lane_is_up) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(carried(300 * kib)[last], 0u);
  EXPECT_EQ(carried(10)[last], 0u);
  lose(0);
  EXPECT_EQ(carried(300 * kib)[last], 0u);
  const auto one = carried(100);
  EXPECT_GT(one[1], 0u);
  EXPECT_EQ(one[last], 0u);
}

TEST_F(standby, carries_all_when_the_others_are_lost) {
  lose(0);
  lose(1);
  EXPECT_GE(carried(300 * kib)[last], 300 * kib);
  EXPECT_GT(carried(10)[last], 0u);
}

TEST_F(standby, is_idle_again_when_another_recovers) {
  lose(0);
  lose(1);
  carried(300 * kib);
  heal(0, false);
  const auto back = carried(300 * kib);
  EXPECT_GE(back[0], 300 * kib);
  EXPECT_EQ(back[last], 0u);
}

TEST_F(standby, takes_over_packets_in_flight) {
  scripted send(operation::kind::send, 1, std::string(300 * kib, 'x'));
  scripted receive(operation::kind::recv, 1, std::string(300 * kib, ' '));
  pair_.start(1, receive);
  pair_.start(0, send);
  move();
  for (std::uint16_t i = 0; i < 2; ++i) pair_.write(0, i);  // it never arrives
  lose(0);
  lose(1);
  for (int round = 0; round < 50 && pair_.good; ++round) move();
  EXPECT_EQ(receive.got, std::string(300 * kib, 'x'));
}

/// Chunk size of a message of 256 KiB.
class pieces : public standby {
 protected:
  std::uint32_t first_piece() {
    scripted send(operation::kind::send, 1, std::string(256 * kib, 'x'));
    scripted receive(operation::kind::recv, 1, std::string(256 * kib, ' '));
    pair_.start(1, receive);
    pair_.start(0, send);
    std::uint32_t found = 0;
    for (int round = 0; round < 50 && pair_.good; ++round) {
      for (const int side : {0, 1}) {
        for (std::uint16_t i = 0; i < pair_.lanes(); ++i) {
          while (pair_.take(side, i)) {
            const rails::lane_write& p = *pair_.ends[side].in_hand[i];
            if (found == 0) found = static_cast<std::uint32_t>(p.payload.bytes);
            pair_.put(side, i);
          }
          pair_.deliver(1 - side, i, ~std::size_t{0});
        }
      }
    }
    EXPECT_TRUE(receive.is_over());
    return found;
  }
};

TEST_F(pieces, are_sized_for_active_lanes) {
  EXPECT_EQ(first_piece(), 64 * kib) << "two lanes, two chunks each";
  lose(0);
  EXPECT_EQ(first_piece(), 256 * kib) << "one lane";
  lose(1);
  EXPECT_EQ(first_piece(), 256 * kib) << "the standby lane";
  heal(0, true);
  EXPECT_EQ(first_piece(), 64 * kib) << "two standby lanes";
}

}  // namespace
}  // namespace tandem::test
