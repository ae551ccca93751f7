// Division of messages into chunks and of chunks among lanes: lanes that are equal or not measured
// yet carry equal parts of messages that are too short to be measured.

#include <algorithm>

#include "support/rails_pair.hpp"

namespace tandem::test {
namespace {

using protocol::chunk_bytes_for;

TEST(Chunks, DependOnMessageAndLanes) {
  const protocol::limits usual;
  struct row {
    std::size_t message_bytes, lanes, chunk_bytes;
  };
  for (const row r : {row{256 * kib, 2, 64 * kib},  // two chunks per lane
                      row{256 * kib, 4, 64 * kib}, row{257 * kib, 2, 128 * kib},
                      row{mib, 2, 256 * kib}, row{mib, 3, 192 * kib}, row{mib, 4, 128 * kib},
                      row{4 * mib, 2, mib}, row{64 * mib, 2, mib}, row{64 * mib, 16, mib},
                      // One lane, or a message too short to be divided: the agreed chunk size.
                      row{256 * kib, 1, mib}, row{64 * mib, 0, mib}, row{128 * kib, 2, mib},
                      row{128 * kib + 1, 2, 64 * kib}, row{0, 2, mib},
                      row{protocol::max_message_bytes, 64, mib}}) {
    EXPECT_EQ(chunk_bytes_for(usual, r.message_bytes, r.lanes), r.chunk_bytes)
        << r.message_bytes << " bytes over " << r.lanes << " lanes";
  }
  protocol::limits short_ones;
  short_ones.chunk_bytes = 10'000;
  EXPECT_EQ(chunk_bytes_for(short_ones, mib, 4), 10'000u);
}

/// Bytes on each lane for messages of this length, sent one after the other.
std::vector<std::uint64_t> shares(std::size_t lanes, std::size_t message_bytes, int messages) {
  rails_pair pair(protocol::limits{}, lanes, rails::timeouts{});
  for (int i = 0; i < messages && pair.good; ++i) {
    scripted send(operation::kind::send, 1, std::string(message_bytes, static_cast<char>('a' + i)));
    scripted receive(operation::kind::recv, 1, std::string(message_bytes, ' '));
    pair.start(1, receive);
    pair.start(0, send);
    pair.deliver_all();
    EXPECT_EQ(receive.got, std::string(message_bytes, static_cast<char>('a' + i)));
  }
  std::vector<std::uint64_t> carried;
  for (std::uint16_t i = 0; i < lanes; ++i) {
    carried.push_back(pair.core(0).sent().acknowledged_bytes(i));
  }
  return carried;
}

TEST(Shares, OfMessagesOf256KiBAreEqual) {
  const std::vector<std::uint64_t> two = shares(2, 256 * kib, 10);
  for (const std::uint64_t carried : two) {
    EXPECT_GE(carried, 10 * 128 * kib);
    EXPECT_LT(carried, 10 * 132 * kib);
  }
  const std::vector<std::uint64_t> four = shares(4, 256 * kib, 10);
  for (const std::uint64_t carried : four) EXPECT_GE(carried, 10 * 64 * kib);
}

TEST(Shares, AMessageOf128KiBStaysOnOneLane) {
  std::vector<std::uint64_t> carried = shares(2, 128 * kib, 1);
  std::sort(carried.begin(), carried.end());
  EXPECT_LT(carried[0], 2 * kib);
  EXPECT_GE(carried[1], 128 * kib);
}

/// A lane's part of a message of 256 KiB is 128 KiB; a lane without acknowledgements gets no more.
TEST(Shares, SilentLaneGetsNoMoreThanItsPart) {
  rails_pair pair(protocol::limits{}, 2, rails::timeouts{});
  scripted send(operation::kind::send, 1, std::string(256 * kib, 'x'));
  scripted receive(operation::kind::recv, 1, std::string(256 * kib, ' '));
  pair.start(1, receive);
  pair.start(0, send);
  const auto send_all = [&pair](int side) {
    while (pair.write(side, 0)) {
    }
  };
  send_all(0);
  pair.deliver(1, 0, mib);
  send_all(1);
  pair.deliver(0, 0, mib);
  EXPECT_EQ(pair.core(0).messages().accepted_bytes_left(), 256 * kib);
  send_all(0);
  EXPECT_EQ(pair.core(0).messages().accepted_bytes_left(), 128 * kib);
  pair.deliver_all();
  EXPECT_TRUE(pair.good);
}

/// A message of this length of which lane 1 delivers at most `lane_bytes` in 10 ms.
void send_slowly(rails_pair& pair, std::size_t bytes, std::size_t lane_bytes) {
  scripted send(operation::kind::send, 1, std::string(bytes, 's'));
  scripted receive(operation::kind::recv, 1, std::string(bytes, ' '));
  pair.start(1, receive);
  pair.start(0, send);
  for (int i = 0; i < 1000 && pair.good && !receive.is_over(); ++i) {
    for (const int side : {0, 1}) {
      for (const std::uint16_t lane : {1, 0}) {
        while (pair.write(side, lane)) {
        }
        pair.deliver(1 - side, lane, side == 1 ? mib : lane == 1 ? lane_bytes : 2 * mib);
      }
    }
    pair.pass_time(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(receive.is_over());
}

/// Short messages do not measure the lane, and nothing else does while it is excluded.
TEST(Shares, SlowLaneIsRetried) {
  rails_pair pair(protocol::limits{}, 2, rails::timeouts{});
  send_slowly(pair, 32 * mib, 64 * kib);
  const auto carried = [&pair] { return pair.core(0).sent().acknowledged_bytes(1); };
  const auto rate = [&pair](std::uint16_t lane) { return pair.core(0).measured_bytes_per_s(lane); };
  ASSERT_GT(rate(1), 0);
  ASSERT_LT(rate(1), rate(0) / 4);
  std::uint64_t before = carried();
  for (int i = 0; i < 15; ++i) {
    send_slowly(pair, 100 * kib, 2 * mib);
    pair.pass_time(std::chrono::milliseconds(90));
  }
  EXPECT_LT(carried(), before + 100 * kib) << "while its rate is known";
  before = carried();
  for (int i = 0; i < 60; ++i) {
    send_slowly(pair, 100 * kib, 2 * mib);
    pair.pass_time(std::chrono::milliseconds(90));
  }
  EXPECT_GT(carried(), before + 100 * kib);
}

/// The chunks of a message of 6 MiB after which the receiver sends a report.
std::vector<bool> reports_of(std::size_t lanes) {
  rails_pair pair(protocol::limits{}, lanes, rails::timeouts{});
  scripted send(operation::kind::send, 1, std::string(6 * mib, 'x'));
  scripted receive(operation::kind::recv, 1, std::string(6 * mib, ' '));
  const auto send_all = [&pair](int side) {
    for (std::uint16_t lane = 0; lane < pair.lanes(); ++lane) {
      while (pair.write(side, lane)) {
      }
      pair.deliver(1 - side, lane, 2 * mib);
    }
  };
  pair.start(1, receive);
  send_all(0);
  send_all(1);
  pair.start(0, send);
  EXPECT_TRUE(pair.write(0, 0));
  while (pair.core(0).messages().accepted_bytes_left() == 0 && pair.good) {
    pair.deliver(1, 0, mib);
    send_all(1);
    if (pair.core(0).messages().accepted_bytes_left() == 0) pair.write(0, 0);
  }
  std::vector<bool> reports;
  for (std::uint16_t lane = 0; reports.size() < 6 && pair.good; lane = (lane + 1) % pair.lanes()) {
    if (!pair.write(0, lane)) continue;
    pair.deliver(1, lane, 2 * mib);
    reports.push_back(pair.core(1).received().needs_report());
    send_all(1);
  }
  EXPECT_TRUE(receive.is_over());
  return reports;
}

TEST(Reports, OnSingleLaneComeEveryFourMegabytesAndAtTheEnd) {
  EXPECT_EQ(reports_of(1), (std::vector<bool>{false, false, false, true, false, true}));
}

TEST(Reports, OnSharedMessagesComeImmediately) {
  EXPECT_EQ(reports_of(2), std::vector<bool>(6, true));
}

}  // namespace
}  // namespace tandem::test
