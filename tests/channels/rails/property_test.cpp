// Two ends of a rails channel under random schedules of loss, delay, reordering between lanes,
// disconnects and recovery: each message arrives once, in order and complete, and released memory
// is never written.

#include <gtest/gtest-spi.h>

#include <boost/asio/error.hpp>
#include <random>

#include "support/rails_pair.hpp"
#include "support/sanitized.hpp"

namespace tandem::test {
namespace {

using kind = operation::kind;

constexpr std::uint64_t schedules = unless_sanitized(500'000, 40'000);
constexpr std::uint64_t batches = 20;  // batches of schedules, each a test of its own
constexpr int steps = 90;
constexpr int flows = 2;

/// Eager messages up to 24 bytes; longer ones are announced and sent in chunks of 64 bytes, or of
/// 16, 32 or 48 if several lanes share one.
constexpr protocol::limits tiny{24, 64, 512, flows, 16};
constexpr rails::timeouts bounds{std::chrono::milliseconds(50), std::chrono::hours(1)};

std::string numbered(std::uint32_t number, std::size_t bytes) {
  std::string text(4 + bytes, static_cast<char>('a' + number % 26));
  std::memcpy(text.data(), &number, 4);
  return text;
}
std::uint32_t number_of(const std::string& text) {
  std::uint32_t number = 0;
  std::memcpy(&number, text.data(), 4);
  return number;
}

enum class views {
  carried,    ///< payload travels on the lanes
  placed,     ///< NICs write chunks in place
  of_devices  ///< the same, in memory that the CPU cannot access; the second lane has no NIC
};

class schedule {
 public:
  explicit schedule(std::uint64_t seed, views which = views::carried)
      : random_(seed),
        which_(which),
        pair_(tiny, 1 + static_cast<std::size_t>(seed % 3), bounds,
              {(seed / 3 & 1) != 0, (seed / 3 & 2) != 0, (seed / 3 & 4) != 0},
              which != views::carried) {
    if (which != views::of_devices) return;
    for (auto& end : pair_.ends) end.nic.lane_without = 1;
  }

  void call_all_lanes_quiet() { pair_.reports_quiesced_early = true; }
  void leave_fences_out() { pair_.omits_fences = true; }
  int in_place() const { return pair_.in_place; }
  void run() {
    for (int i = 0; i < steps && pair_.good; ++i) step();
    // A placed chunk requires an announcement, a grant and an accept before it.
    for (int i = 0; pair_.drains_late && i < 2 * steps && pair_.good; ++i) {
      many_steps();
      step();
    }
    finish();
    if (pair_.good) check();
  }

 private:
  struct direction {
    std::vector<std::unique_ptr<scripted>> sends[flows], recvs[flows];
  };

  std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  void step() {
    const int side = static_cast<int>(pick(2));
    const auto flow = static_cast<flow_id>(pick(flows));
    const auto lane = static_cast<std::uint16_t>(pick(pair_.lanes()));
    switch (pick(24)) {
      case 0:
      case 1:
      case 2:
        return post_send(side, flow);
      case 3:
      case 4:
      case 5:
        return post_recv(side, flow);
      case 6:
        return cancel_one(side, flow);
      case 7:
        return fault(side, lane);
      case 8:
        if (!pair_.is_open(0, lane) || pick(4) == 0) pair_.heal(lane);
        return;
      case 9:
        return pair_.pass_time(std::chrono::milliseconds(pick(30)));
      case 10:
      case 11:
      case 12:
      case 13:
      case 14:
        pair_.take(side, lane);
        return;
      case 15:
      case 16:
      case 17:
        return pair_.put(side, lane);
      default:
        return pair_.deliver(side, lane, 1 + pick(pick(2) == 0 ? 40 : 300));
    }
  }

  /// Many steps between two others.
  void many_steps() {
    for (int i = 0; i < 6; ++i) {
      const int side = static_cast<int>(pick(2));
      const auto lane = static_cast<std::uint16_t>(pick(pair_.lanes()));
      switch (pick(8)) {
        case 0:
          pair_.drain(side, pick(3) == 0);
          break;
        case 1:
          pair_.deliver_completion(side, lane);
          break;
        case 2:
        case 3:
          pair_.move(side, lane);
          break;
        case 4:
        case 5:
          pair_.write(side, lane);
          break;
        default:
          pair_.deliver(side, lane, 1000);
      }
    }
  }

  void fault(int side, std::uint16_t lane) {
    switch (pick(5)) {
      case 0:  // nothing arrives at this side
        pair_.ends[side].passes[lane] = false;
        return;
      case 1:  // it does again: delayed bytes arrive late
        pair_.ends[side].passes[lane] = true;
        return;
      case 2:  // a reset that both ends detect
        pair_.close(0, lane);
        return pair_.close(1, lane);
      case 3:  // one end closes the lane
        return pair_.close(side, lane);
      default: {  // a flipped bit
        std::string& wire = pair_.ends[side].inbox[lane];
        if (wire.empty()) return;
        char& byte = wire[pick(wire.size())];
        byte = static_cast<char>(byte ^ 1 << pick(8));
      }
    }
  }
  void post_send(int side, flow_id flow) {
    const std::size_t bytes = pick(2) == 0 ? pick(21) : pick(260);
    auto& list = directions_[side].sends[flow];
    list.push_back(std::make_unique<scripted>(kind::send, flow, numbered(++number_, bytes)));
    start(side, *list.back());
  }
  void post_recv(int side, flow_id flow) {
    auto& list = directions_[1 - side].recvs[flow];
    list.push_back(std::make_unique<scripted>(kind::recv, flow, std::string(270, '?')));
    start(side, *list.back());
  }
  void start(int side, scripted& op) {
    if (which_ == views::of_devices) op.view = fake_nic::on_device(op.view);
    pair_.start(side, op);
  }
  void cancel_one(int side, flow_id flow) {
    const bool of_send = pick(2) == 0;
    auto& list = of_send ? directions_[side].sends[flow] : directions_[1 - side].recvs[flow];
    if (list.empty()) return;
    scripted& op = *list[pick(list.size())];
    if (!op.is_over()) pair_.cancel(side, op);
  }

  void deliver_all() {
    for (std::uint16_t i = 0; i < pair_.lanes(); ++i) {
      for (const int side : {0, 1}) pair_.ends[side].passes[i] = true;
    }
    pair_.heal_closed();
    pair_.deliver_all();
  }

  /// Receives until every send has completed, then cancels the remaining receives.
  void finish() {
    for (int i = 0; i < 2 * steps && pair_.good; ++i) {
      deliver_all();
      bool any = false;
      for (const int side : {0, 1}) {
        for (flow_id f = 0; f < flows; ++f) {
          const auto& list = directions_[side].sends[f];
          const bool open =
              std::any_of(list.begin(), list.end(), [](const auto& op) { return !op->is_over(); });
          const bool unexpected = pair_.core(1 - side).messages().stats().unexpected_bytes > 0;
          if (open || unexpected) post_recv(1 - side, f);
          any = any || open || unexpected;
        }
      }
      if (!any) break;
    }
    deliver_all();
    for (const int side : {0, 1}) {
      for (auto& list : directions_[1 - side].recvs) {
        for (auto& op : list) {
          if (!op->is_over()) pair_.cancel(side, *op);
        }
      }
    }
    deliver_all();
  }

  void check() {
    for (const int side : {0, 1}) {
      EXPECT_TRUE(pair_.core(side).is_flushed()) << "side " << side << " still waits for a report";
    }
    // Packets that were sent again after a loss are received twice.
    for (std::uint16_t lane = 0; lane < pair_.lanes(); ++lane) {
      for (const int side : {0, 1}) {
        EXPECT_GE(pair_.core(1 - side).received_bytes(lane),
                  pair_.core(side).sent().acknowledged_bytes(lane))
            << "lane " << lane << " from side " << side;
      }
    }
    for (const int side : {0, 1}) {
      EXPECT_EQ(pair_.ends[side].nic.keys(), 0u) << "side " << side << " keeps views registered";
      EXPECT_FALSE(pair_.core(side).has_active_dma());
    }
    for (direction& traffic : directions_) {
      for (int f = 0; f < flows; ++f) check_flow(traffic, f);
    }
  }

  void check_flow(const direction& traffic, int flow) {
    std::vector<std::uint32_t> sent, got;
    for (const auto& op : traffic.sends[flow]) {
      ASSERT_TRUE(op->is_over());
      if (!op->result) sent.push_back(number_of(op->bytes_of));
    }
    std::size_t aborted = 0;
    for (const auto& op : traffic.recvs[flow]) {
      ASSERT_TRUE(op->is_over());
      EXPECT_EQ(op->bytes_of.find_first_not_of('Z'), std::string::npos)
          << "written after it was over";
      if (op->result == boost::asio::error::operation_aborted) ++aborted;
      if (op->result) continue;
      const std::uint32_t number = number_of(op->got);
      EXPECT_EQ(op->got, numbered(number, op->got.size() - 4));
      got.push_back(number);
    }
    EXPECT_TRUE(std::is_sorted(got.begin(), got.end())) << "out of order";
    EXPECT_TRUE(std::adjacent_find(got.begin(), got.end()) == got.end()) << "twice";
    EXPECT_TRUE(std::includes(sent.begin(), sent.end(), got.begin(), got.end()))
        << "received what was never sent, or given up";
    EXPECT_LE(sent.size() - got.size(), aborted) << "a message was lost";
  }

  std::mt19937_64 random_;
  const views which_;
  rails_pair pair_;
  direction directions_[2];  // by sending side
  std::uint32_t number_ = 0;
};

class rails_property : public testing::TestWithParam<std::uint64_t> {};

TEST_P(rails_property, holds_under_random_faults) {
  const std::uint64_t each = schedules / batches;
  for (std::uint64_t seed = GetParam() * each; seed < (GetParam() + 1) * each; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    schedule(seed).run();
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(batches, rails_property, testing::Range(std::uint64_t{0}, batches));

/// Number of chunks written by NICs.
std::uint64_t run_direct(std::uint64_t batch, views which) {
  const std::uint64_t each = schedules / 20 / batches;
  std::uint64_t in_place = 0;
  for (std::uint64_t seed = batch * each; seed < (batch + 1) * each; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    schedule one(seed, which);
    one.run();
    in_place += static_cast<std::uint64_t>(one.in_place());
    if (testing::Test::HasFailure()) break;
  }
  return in_place;
}

/// The same with NICs that write chunks in place and continue after their lane is closed: none
/// writes into a released view, and none stays registered.
TEST_P(rails_property, holds_for_direct_placement) {
  EXPECT_GT(run_direct(GetParam(), views::placed), schedules / 20 / batches);
}

/// The CPU never accesses a view of a device, whichever lane carries its bytes.
TEST_P(rails_property, holds_for_views_of_devices) {
  EXPECT_GT(run_direct(GetParam(), views::of_devices), schedules / 40 / batches);
}

/// The schedules must be able to detect a missing fence: both copies of a packet arrive at once, or
/// one arrives while the other is being written.
template <class Inject>
void expect_found(views which, Inject inject) {
  if (is_sanitized) GTEST_SKIP() << "a test of the schedules, which the other builds run";
  std::uint64_t seed = 0;
  testing::TestPartResultArray found;
  for (; seed < 50'000 && found.size() == 0; ++seed) {
    const testing::ScopedFakeTestPartResultReporter instead(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &found);
    schedule faulty(seed, which);
    inject(faulty);
    faulty.run();
  }
  EXPECT_GT(found.size(), 0) << "not in " << seed << " schedules";
  testing::Test::RecordProperty("schedules", static_cast<int>(seed));
}

TEST(rails_property, detects_missing_fence) {
  expect_found(views::carried, [](schedule& faulty) { faulty.leave_fences_out(); });
}
TEST(rails_property, detects_view_released_too_early) {
  expect_found(views::placed, [](schedule& faulty) { faulty.call_all_lanes_quiet(); });
}

}  // namespace
}  // namespace tandem::test
