// Credits of a lane: step by step, and with two ends that use them in random order.

#include "transports/rails/verbs/credits.hpp"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <optional>
#include <random>

namespace tandem::verbs {
namespace {

constexpr queue_depths narrow{.records = 4, .chunks = 2, .updates = 4};

TEST(Credits, NeverExceedPeerQueueDepths) {
  credits mine(queue_depths{}, narrow);
  for (std::uint32_t i = 0; i < narrow.records; ++i) {
    ASSERT_TRUE(mine.may_send_record());
    mine.record_sent();
  }
  EXPECT_FALSE(mine.may_send_record());
  EXPECT_FALSE(mine.may_send_chunk()) << "it takes a receive, too";
  EXPECT_TRUE(mine.apply_update({.records = 1}));
  EXPECT_TRUE(mine.may_send_chunk());
}

TEST(Credits, ChunkUsesSlotAndReceive) {
  credits mine(queue_depths{}, narrow);
  EXPECT_EQ(mine.chunk_sent(), 0u);
  EXPECT_EQ(mine.chunk_sent(), 1u);
  EXPECT_FALSE(mine.may_send_chunk());
  EXPECT_TRUE(mine.may_send_record());
  EXPECT_TRUE(mine.apply_update({.records = 1, .chunks = 1}));
  EXPECT_TRUE(mine.may_send_chunk());
  EXPECT_EQ(mine.chunk_sent(), 0u) << "slots are used one after the other";
}

TEST(Credits, UpdatesUseTheirOwnReceives) {
  credits mine(narrow, narrow);
  for (std::uint32_t i = 0; i < narrow.updates - 1; ++i) {
    ASSERT_TRUE(mine.may_send_update());
    mine.update_sent();
  }
  EXPECT_FALSE(mine.may_send_update());
  EXPECT_TRUE(mine.may_send_record());
  EXPECT_TRUE(mine.apply_update({.updates = 2}));
  EXPECT_TRUE(mine.may_send_update());
}

TEST(Credits, LastUpdateIsReservedForUpdateCredits) {
  credits mine(narrow, narrow);
  for (std::uint32_t i = 0; i < narrow.updates - 1; ++i) mine.update_sent();
  for (int i = 0; i < 4; ++i) mine.record_taken();
  EXPECT_FALSE(mine.may_send_update());
  mine.update_taken();
  mine.update_taken();
  EXPECT_TRUE(mine.may_send_update());
  mine.update_sent();
  EXPECT_FALSE(mine.may_send_update());
}

TEST(Credits, LateUpdateRevokesNothing) {
  credits mine(queue_depths{}, narrow);
  for (int i = 0; i < 4; ++i) mine.record_sent();
  EXPECT_TRUE(mine.apply_update({.records = 3}));
  EXPECT_TRUE(mine.apply_update({.records = 1}));
  for (int i = 0; i < 3; ++i) mine.record_sent();
  EXPECT_FALSE(mine.may_send_record());
}

TEST(Credits, CreditsForUnsentDataAreRefused) {
  const auto mine = [] {
    credits made(queue_depths{}, narrow);
    made.chunk_sent();
    made.update_sent();
    return made;
  };
  EXPECT_TRUE(mine().apply_update({.records = 1, .chunks = 1, .updates = 1}));
  EXPECT_FALSE(mine().apply_update({.records = 2, .chunks = 1, .updates = 1}));
  EXPECT_FALSE(mine().apply_update({.records = 1, .chunks = 2, .updates = 1}));
  EXPECT_FALSE(mine().apply_update({.records = 1, .chunks = 1, .updates = 2}));
  EXPECT_FALSE(mine().apply_update({.records = 0x7fff'ffff}));
}

TEST(Credits, ChunksArriveInOrder) {
  credits mine(narrow, queue_depths{});
  EXPECT_FALSE(mine.chunk_arrived(1));
  EXPECT_TRUE(mine.chunk_arrived(0));
  EXPECT_FALSE(mine.chunk_arrived(0));
  EXPECT_TRUE(mine.chunk_arrived(1));
  EXPECT_FALSE(mine.chunk_arrived(0)) << "the slot was not read yet";
  mine.chunk_taken();
  EXPECT_FALSE(mine.chunk_arrived(1));
  EXPECT_TRUE(mine.chunk_arrived(0));
  EXPECT_FALSE(mine.chunk_arrived(0xffff'ffff));
}

TEST(Credits, UpdateIsDueWhenHalfIsTaken) {
  credits mine(narrow, queue_depths{});
  EXPECT_FALSE(mine.update_due());
  mine.record_taken();
  EXPECT_FALSE(mine.update_due());
  mine.record_taken();
  EXPECT_TRUE(mine.update_due());
  EXPECT_EQ(mine.next_update(), (credit_update{.records = 2}));
  EXPECT_FALSE(mine.update_due());
  mine.chunk_taken();
  EXPECT_TRUE(mine.update_due()) << "one of two slots";
  EXPECT_EQ(mine.next_update(), (credit_update{.records = 3, .chunks = 1}));
}

TEST(Credits, UpdateRoundTrips) {
  const credit_update update{1, 0x1234'5678, 0xffff'ffff, 77};
  std::array<std::byte, credit_update_bytes> wire;
  encode(update, wire);
  EXPECT_EQ(decode(wire), update);
}

/// Two ends and the messages in flight between them. Records stay in order, and so do updates, but
/// either kind may overtake the other.
class two_ends {
 public:
  two_ends(const queue_depths& a, const queue_depths& b) : ends_{end(a, b), end(b, a)} {}

  void step(std::mt19937& random) {
    const int side = static_cast<int>(random() % 2);
    switch (random() % 8) {
      case 0:
      case 1:
        return send(side, false);
      case 2:
        return send(side, true);
      case 3:
      case 4:
        return data_arrives(side);
      case 5:
        return update_arrives(side);
      default:
        return take(side);
    }
  }

  /// Both ends process all arrivals and send due updates until nothing is left; false if that never
  /// ends.
  bool drain() {
    for (int moves = 0; moves < 1000; ++moves) {
      if (!drain_once()) return true;
    }
    return false;
  }
  bool may_send(int side) const {
    const credits& by = ends_[side].by;
    return by.may_send_record() && by.may_send_chunk() && by.may_send_update();
  }

  bool good = true;

 private:
  struct message {
    credit_update update;
    std::optional<std::uint32_t> slot;
  };
  struct end {
    end(const queue_depths& mine, const queue_depths& theirs) : has(mine), by(mine, theirs) {}
    queue_depths has;
    credits by;
    std::deque<message> data_inbox;  // in flight to this end
    std::deque<credit_update> update_inbox;
    std::deque<message> arrived;  // not yet processed: each occupies its receive
  };

  void send(int side, bool chunk) {
    end& from = ends_[side];
    end& to = ends_[1 - side];
    if (!(chunk ? from.by.may_send_chunk() : from.by.may_send_record())) return;
    message sent;
    if (chunk) {
      sent.slot = from.by.chunk_sent();
    } else {
      from.by.record_sent();
    }
    sent.update = from.by.next_update();
    to.data_inbox.push_back(sent);
    expect(to.data_inbox.size() + to.arrived.size() <= to.has.records, "no receive for a record");
  }
  void send_update(int side) {
    end& from = ends_[side];
    end& to = ends_[1 - side];
    if (!from.by.update_due() || !from.by.may_send_update()) return;
    from.by.update_sent();
    to.update_inbox.push_back(from.by.next_update());
    expect(to.update_inbox.size() <= to.has.updates, "no receive for an update");
  }
  void data_arrives(int side) {
    end& at = ends_[side];
    if (at.data_inbox.empty()) return;
    const message m = at.data_inbox.front();
    at.data_inbox.pop_front();
    expect(!m.slot || at.by.chunk_arrived(*m.slot), "a slot out of order");
    expect(at.by.apply_update(m.update), "an invalid update");
    at.arrived.push_back(m);
  }
  void update_arrives(int side) {
    end& at = ends_[side];
    if (at.update_inbox.empty()) return;
    expect(at.by.apply_update(at.update_inbox.front()), "an invalid update");
    at.update_inbox.pop_front();
    at.by.update_taken();
    send_update(side);
  }
  void take(int side) {
    end& at = ends_[side];
    if (at.arrived.empty()) return;
    at.arrived.front().slot ? at.by.chunk_taken() : at.by.record_taken();
    at.arrived.pop_front();
    send_update(side);
  }
  bool drain_once() {
    bool any = false;
    for (const int side : {0, 1}) {
      end& at = ends_[side];
      any = any || !at.data_inbox.empty() || !at.update_inbox.empty() || !at.arrived.empty();
      data_arrives(side);
      update_arrives(side);
      take(side);
    }
    return any;
  }
  void expect(bool condition, const char* what) {
    EXPECT_TRUE(condition) << what;
    good = good && condition;
  }

  std::array<end, 2> ends_;
};

queue_depths any_queues(std::mt19937& random) {
  queue_depths has;
  has.records = 2 + random() % 9;
  has.chunks = 1 + random() % 4;
  has.updates = min_updates + random() % 5;
  return has;
}

TEST(Credits, NeverDeadlock) {
  for (std::uint32_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    const queue_depths a = any_queues(random), b = any_queues(random);
    SCOPED_TRACE("seed " + std::to_string(seed));
    two_ends both(a, b);
    for (int i = 0; i < 200 && both.good; ++i) both.step(random);
    ASSERT_TRUE(both.drain()) << "updates cause updates endlessly";
    ASSERT_TRUE(both.may_send(0) && both.may_send(1));
    ASSERT_TRUE(both.good);
  }
}

}  // namespace
}  // namespace tandem::verbs
