// Two sessions under random schedules: for every order of starts, cancellations, frames and
// arrivals, each message arrives once, in order and complete, or is cancelled, and nothing leaks.

#include <gtest/gtest.h>

#include <boost/asio/error.hpp>
#include <random>

#include "support/sanitized.hpp"
#include "support/session_pair.hpp"

namespace tandem::test {
namespace {

using protocol::frame_type;
using kind = operation::kind;

constexpr std::uint64_t schedules = unless_sanitized(100'000, 20'000);
constexpr std::uint64_t batches = 10;  // batches of schedules, each a test of its own
constexpr int steps = 80;
constexpr int flows = 3;

/// The credits of a flow hold one eager message; messages longer than 24 bytes are announced.
constexpr protocol::limits tiny_limits{24, 16, 512, flows};

std::string numbered(std::uint32_t number, std::size_t bytes) {
  std::string text(4 + bytes, static_cast<char>('a' + number % 26));
  std::memcpy(text.data(), &number, 4);
  return text;
}

struct direction {
  std::vector<std::unique_ptr<scripted>> sends[flows], recvs[flows];
};

class schedule {
 public:
  explicit schedule(std::uint64_t seed) : random_(seed) {}

  void run() {
    for (int i = 0; i < steps && good_; ++i) step();
    finish();
    if (good_) check();
    if (good_) check_nothing_is_left();
  }

 private:
  std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  void step() {
    const int side = static_cast<int>(pick(2));
    const auto flow = static_cast<flow_id>(pick(flows));
    switch (pick(12)) {
      case 0:
      case 1:
        return post_send(side, flow);
      case 2:
      case 3:
        return post_recv(side, flow);
      case 4:
        return cancel_one(side, flow);
      case 5:
      case 6:
      case 7:
        return take_frame(side);
      case 8:
        return finish_write(side);
      default:
        return arrive(side);
    }
  }

  void post_send(int side, flow_id flow) {
    const std::size_t bytes = pick(2) == 0 ? pick(21) : pick(70);
    auto& list = directions_[side].sends[flow];
    list.push_back(std::make_unique<scripted>(kind::send, flow, numbered(++number_, bytes)));
    const bool may_leave = being_written_[side].empty() && pick(2) == 0;
    if (may_leave && pair_.send_at_once(side, *list.back())) return;
    pair_.start(side, *list.back());
  }
  void post_recv(int side, flow_id flow) {
    auto& list = directions_[1 - side].recvs[flow];
    list.push_back(std::make_unique<scripted>(kind::recv, flow, std::string(80, '?')));
    pair_.start(side, *list.back());
  }
  void cancel_one(int side, flow_id flow) {
    const bool of_send = pick(2) == 0;
    auto& list = of_send ? directions_[side].sends[flow] : directions_[1 - side].recvs[flow];
    if (list.empty()) return;
    scripted& op = *list[pick(list.size())];
    if (!op.is_over()) pair_.end(side).cancel(op);
    pair_.forget_done(side);
    if (op.is_over()) completed_bytes_.emplace_back(&op, op.bytes_of);
  }

  /// Takes the next frame for writing; its payload is read when the write completes.
  void take_frame(int side) {
    protocol::outgoing_frame out;
    if (being_written_[side].size() < 4 && pair_.end(side).next(out))
      being_written_[side].push_back(out);
  }
  void finish_write(int side) {
    if (being_written_[side].empty()) return;
    const protocol::outgoing_frame out = being_written_[side].front();
    being_written_[side].pop_front();
    packet p{out.header, {}};
    p.payload.assign(static_cast<const char*>(out.payload.data), out.payload.bytes);
    if (out.header.type == frame_type::announce) {
      const std::size_t slot = out.header.message_id & 0xffff;
      max_slot_[side] = std::max(max_slot_[side], slot);
    }
    pair_.end(side).sent(out);
    pair_.forget_done(side);
    pair_.on_wire[side].push_back(std::move(p));
  }

  /// Next step of an arrival: the header, then half of the payload, then the rest.
  void arrive(int from) {
    protocol::session& to = pair_.end(1 - from);
    auto& incoming_payload = landings_[from];
    if (incoming_payload == nullptr) {
      if (pair_.on_wire[from].empty()) return;
      if (pick(2) == 0 && pair_.deliver_at_once(from)) return;
      const packet& p = pair_.on_wire[from].front();
      if (!protocol::carries_payload(p.header.type)) {
        good_ = to.handle(p.header);
        pair_.on_wire[from].pop_front();
      } else {
        incoming_payload = std::make_unique<protocol::incoming_payload>();
        good_ = to.begin(p.header, *incoming_payload);
      }
      EXPECT_TRUE(good_) << to.violation();
    } else {
      const packet& p = pair_.on_wire[from].front();
      const std::size_t left = p.payload.size() - incoming_payload->received;
      const std::size_t now = incoming_payload->received == 0 && left > 1 ? left / 2 : left;
      if (incoming_payload->target != nullptr && now > 0) {
        std::memcpy(incoming_payload->target + incoming_payload->received,
                    p.payload.data() + incoming_payload->received, now);
      }
      incoming_payload->received += now;
      if (incoming_payload->received == p.payload.size()) {
        to.end(*incoming_payload);
        incoming_payload.reset();
        pair_.on_wire[from].pop_front();
      }
    }
    pair_.forget_done(1 - from);
  }

  bool is_quiet() {
    for (const int side : {0, 1}) {
      take_frame(side);
      if (!being_written_[side].empty() || !pair_.on_wire[side].empty()) return false;
    }
    return true;
  }
  void drain() {
    for (int i = 0; i < 100'000 && good_; ++i) {
      if (is_quiet()) return;
      for (const int side : {0, 1}) {
        finish_write(side);
        arrive(side);
      }
    }
    EXPECT_FALSE(good_) << "frames without end";
    good_ = false;
  }

  /// Receives until every send has completed, then cancels the remaining receives.
  void finish() {
    drain();
    for (int i = 0; i < 2 * steps && good_; ++i) {
      bool any = false;
      for (const int side : {0, 1}) {
        for (flow_id f = 0; f < flows; ++f) {
          const auto& list = directions_[side].sends[f];
          const bool open =
              std::any_of(list.begin(), list.end(), [](const auto& op) { return !op->is_over(); });
          if (!open) continue;
          any = true;
          post_recv(1 - side, f);
        }
      }
      drain();
      if (!any && pair_.end(0).stats().unexpected_bytes == 0 &&
          pair_.end(1).stats().unexpected_bytes == 0) {
        break;
      }
      if (!any) take_unexpected();
    }
    for (const int side : {0, 1}) {
      for (auto& list : directions_[1 - side].recvs) {
        for (auto& op : list) {
          if (!op->is_over()) pair_.end(side).cancel(*op);
        }
      }
      pair_.forget_done(side);
    }
    drain();
  }
  void take_unexpected() {
    for (const int side : {0, 1}) {
      for (flow_id f = 0; f < flows; ++f) post_recv(side, f);
    }
    drain();
  }

  void check() {
    for (const auto& [op, bytes] : completed_bytes_) {
      EXPECT_EQ(op->bytes_of, bytes) << "written after it was over";
    }
    for (direction& traffic : directions_) {
      for (int f = 0; f < flows; ++f) check_flow(traffic, f);
    }
    good_ = !testing::Test::HasFailure();
  }

  void check_flow(const direction& traffic, int flow) {
    std::vector<std::uint32_t> sent, got;
    for (const auto& op : traffic.sends[flow]) {
      ASSERT_TRUE(op->is_over());
      std::uint32_t number = 0;
      std::memcpy(&number, op->bytes_of.data(), 4);
      if (!op->result) sent.push_back(number);
    }
    std::size_t aborted = 0;
    for (const auto& op : traffic.recvs[flow]) {
      ASSERT_TRUE(op->is_over());
      if (op->result == boost::asio::error::operation_aborted) ++aborted;
      if (op->result) continue;
      std::uint32_t number = 0;
      std::memcpy(&number, op->bytes_of.data(), 4);
      EXPECT_EQ(op->received(), numbered(number, op->bytes - 4));
      got.push_back(number);
    }
    EXPECT_TRUE(std::is_sorted(got.begin(), got.end())) << "out of order";
    EXPECT_TRUE(std::adjacent_find(got.begin(), got.end()) == got.end()) << "twice";
    EXPECT_TRUE(std::includes(sent.begin(), sent.end(), got.begin(), got.end()))
        << "received what was never sent, or given up";
    EXPECT_LE(sent.size() - got.size(), aborted) << "a message was lost";
  }

  /// All slots and announcements are free again: as many messages as were ever open at once fit
  /// into the slots that were used.
  void check_nothing_is_left() {
    for (const int side : {0, 1}) {
      EXPECT_EQ(pair_.end(side).stats().unexpected_bytes, 0u);
      std::vector<std::unique_ptr<scripted>> all;
      const std::size_t count = std::min<std::size_t>(max_slot_[side] + 1, 16 * flows);
      for (std::size_t i = 0; i < count; ++i) {
        all.push_back(std::make_unique<scripted>(kind::send, static_cast<flow_id>(i % flows),
                                                 std::string(100, 'z')));
        pair_.start(side, *all.back());
      }
      for (std::size_t i = 0; i < count; ++i) {
        const packet* p = pair_.write(side);
        ASSERT_NE(p, nullptr) << "an announcement is still counted as open";
        EXPECT_EQ(p->header.type, frame_type::announce);
        EXPECT_LE(p->header.message_id & 0xffff, max_slot_[side]) << "a slot was lost";
      }
      for (auto& op : all) pair_.end(side).cancel(*op);
      pair_.forget_done(side);
    }
  }

  std::mt19937_64 random_;
  direction directions_[2];  // by sending side
  session_pair pair_{tiny_limits};
  std::deque<protocol::outgoing_frame> being_written_[2];
  std::unique_ptr<protocol::incoming_payload> landings_[2];  // by sending side
  std::vector<std::pair<scripted*, std::string>> completed_bytes_;
  std::size_t max_slot_[2] = {0, 0};
  std::uint32_t number_ = 0;
  bool good_ = true;
};

class session_property : public testing::TestWithParam<std::uint64_t> {};

TEST_P(session_property, holds_under_random_schedules) {
  const std::uint64_t each = schedules / batches;
  for (std::uint64_t seed = GetParam() * each; seed < (GetParam() + 1) * each; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    schedule(seed).run();
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(batches, session_property, testing::Range(std::uint64_t{0}, batches));

/// Random frames, some of them almost valid: the session refuses or continues, and never crashes.
TEST(session_fuzz, hostile_frames) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    session_pair pair(tiny_limits);
    std::vector<std::unique_ptr<scripted>> all;
    for (int i = 0; i < 10; ++i) {
      all.push_back(std::make_unique<scripted>(i % 2 == 0 ? kind::send : kind::recv,
                                               static_cast<flow_id>(random() % flows),
                                               std::string(random() % 80, 'x')));
      pair.start(0, *all.back());
    }
    bool good = true;
    for (int i = 0; i < 60 && good; ++i) {
      pair.write(0);
      packet p;
      p.header.type = static_cast<frame_type>(1 + random() % 8);
      p.header.message_id = (random() % 6) << 16 | random() % 4;
      p.header.flow = static_cast<flow_id>(random() % (flows + 1));
      p.header.offset = random() % 3 == 0 ? random() : random() % 100;
      p.header.credit = random() % 2 == 0 ? 0 : static_cast<std::uint32_t>(random() % 300);
      if (protocol::carries_payload(p.header.type)) p.payload.assign(random() % 40, 'h');
      p.header.payload_bytes = static_cast<std::uint32_t>(p.payload.size());
      good = pair.deliver(1, p);
      EXPECT_EQ(good, pair.end(0).violation().empty());
    }
    EXPECT_LE(pair.end(0).stats().unexpected_bytes_peak, tiny_limits.credit_bytes);
    pair.end(0).fail(error(errc::protocol_violation, pair.end(0).violation()));
    for (const auto& op : all) EXPECT_TRUE(op->is_over());
    pair.forget_done(0);
  }
}

}  // namespace
}  // namespace tandem::test
