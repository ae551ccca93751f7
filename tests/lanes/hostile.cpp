// A peer that sets up a lane correctly and then violates the protocol: its lane is lost, with the
// reason, and the channel continues over the others.

#include <boost/asio/use_awaitable.hpp>

#include "lanes/raw_verbs.hpp"
#include "support/traffic.hpp"

namespace tandem::test {
namespace {

struct attack {
  std::string name;
  std::function<void(raw_verbs& by)> violate;
  std::string expected;
};

constexpr std::size_t slot_bytes = 8192;  // of `small_queues`, which has two

std::vector<attack> attacks() {
  std::vector<attack> all;
  const auto chunk = [](std::string name, std::size_t bytes, std::int64_t offset,
                        std::uint32_t slot, std::string expected) {
    const auto violate = [=](raw_verbs& by) {
      raw_verbs::write_update(
          by.data, {.body_bytes = static_cast<std::uint32_t>(bytes - verbs::credit_update_bytes)});
      by.write(bytes, by.remote.chunks_at + static_cast<std::uint64_t>(offset), slot,
               by.remote.key);
    };
    return attack{std::move(name), violate, std::move(expected)};
  };
  const std::string out_of_turn = ", which is out of turn";
  const std::string no_access = "the peer accessed memory that it may not access";
  all.push_back(chunk("slot_out_of_range", 100, 0, 99, "into slot 99" + out_of_turn));
  all.push_back(chunk("slot_out_of_turn", 100, slot_bytes, 1, "into slot 1" + out_of_turn));
  all.push_back(
      chunk("slot_of_all_ones", 100, 0, 0xffff'ffff, "into slot 4294967295" + out_of_turn));
  all.push_back(chunk("longer_than_a_slot", slot_bytes + 100, 0, 0, "8292 bytes written into"));
  all.push_back(chunk("behind_the_slots", 100, 2 * slot_bytes, 0, no_access));
  all.push_back(chunk("before_the_slots", 100, -4096, 0, no_access));
  all.push_back(chunk("across_the_end", slot_bytes, 2 * slot_bytes - 100, 0, no_access));
  const auto with_key = [](std::string name, std::uint32_t flip, std::string expected) {
    const auto violate = [=](raw_verbs& by) {
      by.write(100, by.remote.chunks_at, 0, by.remote.key ^ flip);
    };
    return attack{std::move(name), violate, std::move(expected)};
  };
  all.push_back(with_key("wrong_key", 0x100, no_access));
  all.push_back(with_key("local_key", 0x80, no_access));
  all.push_back({"read",
                 [](raw_verbs& by) {
                   ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_READ, 1);
                   wr.wr.rdma.remote_addr = by.remote.chunks_at;
                   wr.wr.rdma.rkey = by.remote.key;
                   EXPECT_EQ(by.data.post(wr, {by.data.part(0, 100)}), 0);
                 },
                 no_access});
  const auto record = [](std::string name, std::size_t bytes, verbs::credit_update update,
                         std::string expected) {
    const auto violate = [=](raw_verbs& by) {
      raw_verbs::write_update(by.data, update);
      by.send(by.data, bytes);
    };
    return attack{std::move(name), violate, std::move(expected)};
  };
  const std::string never_sent = "returned credits that were never used";
  all.push_back(record("no_update", 15, {}, "a record without a credit update"));
  all.push_back(record("nothing_at_all", 0, {}, "a record without a credit update"));
  all.push_back(record("records_never_sent", 16, {.records = 1000}, never_sent));
  all.push_back(record("chunks_never_sent", 16, {.chunks = 1000}, never_sent));
  all.push_back(record("updates_never_sent", 16, {.updates = 1000}, never_sent));
  all.push_back(
      record("more_announced_than_sent", 16, {.body_bytes = 5}, "announced 5 bytes and sent 0"));
  all.push_back(
      record("less_announced_than_sent", 40, {.body_bytes = 5}, "announced 5 bytes and sent 24"));
  all.push_back(record("longer_than_a_record", 1025, {.body_bytes = 1009}, "local length error"));
  all.push_back(record("bytes_of_no_envelope", 116, {.body_bytes = 100}, "envelope"));
  const auto control = [](std::string name, std::size_t bytes, verbs::credit_update update,
                          std::string expected) {
    const auto violate = [=](raw_verbs& by) {
      raw_verbs::write_update(by.control, update);
      by.send(by.control, bytes);
    };
    return attack{std::move(name), violate, std::move(expected)};
  };
  all.push_back(control("half_an_update", 8, {}, "an invalid credit update"));
  all.push_back(control("update_too_long", 17, {}, "local length error"));
  all.push_back(
      control("update_with_a_body", 16, {.body_bytes = 1}, "announced 1 bytes and sent 0"));
  all.push_back(control("update_with_false_credits", 16, {.updates = 0x7fff'ffff}, never_sent));
  return all;
}

void PrintTo(const attack& a, std::ostream* out) {
  *out << a.name;
}

/// Shared by the two sides: while `hostile` is set, the next lane 0 is made by the raw peer.
struct shared_state {
  bool hostile = false;
  std::shared_ptr<raw_verbs> peer;
  std::shared_ptr<rdma_network> network;
};

awaitable<std::unique_ptr<rails::lane_connection>> make_lane(std::shared_ptr<shared_state> on,
                                                             sealed::connection over,
                                                             sealed::side which,
                                                             std::uint16_t lane) {
  if (on->hostile && which == sealed::side::listener) {
    on->hostile = false;
    on->peer =
        co_await raw_verbs::establish(std::move(over.socket), rdma_network::device_name(1, lane));
    throw error(errc::unreachable, "the peer is driven by hand");
  }
  std::unique_ptr<rails::lane_connection> made =
      co_await on->network->establish(std::move(over), which, lane);
  co_return made;
}

awaitable<void> run_attack(attack by, rdma_double::delivery when) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto on = std::make_shared<shared_state>();
  on->network = rdma_network::make(executor, 2, when);
  lane_connection_maker make = [on](sealed::connection over, sealed::side which,
                                    std::uint16_t lane) {
    return make_lane(on, std::move(over), which, lane);
  };
  const auto rig = co_await rails_rig::connect(small_settings(), 2, false, std::move(make));
  const channel_pair ends = rig->channels();
  on->hostile = true;
  rig->ends[0]->cut(0);
  const auto there = [&] { return on->peer && ends.first->rails()[0].epoch >= 2; };
  co_await until(there, "the hostile peer");
  by.violate(*on->peer);
  traffic during(*ends.first, *ends.second, 1);
  const auto lost = [&ends] { return ends.first->rails()[0].times_lost >= 2; };
  co_await until(lost, "the lane is lost");
  const std::string why = ends.first->rails()[0].why_lost;
  EXPECT_NE(why.find(by.expected), std::string::npos) << why;
  on->peer.reset();
  co_await during.result();
  const auto back = [&ends] {
    return ends.first->rails()[0].state == "up" && ends.second->rails()[0].state == "up";
  };
  co_await until(back, "a correct peer's lane");
  traffic after(*ends.first, *ends.second, 2);
  co_await after.result();
  EXPECT_EQ(ends.first->rails()[1].times_lost, 0u);
  on->network.reset();
}

class hostile_verbs : public testing::TestWithParam<attack> {};

TEST_P(hostile_verbs, lose_their_lane) {
  run_test(run_attack(GetParam(), rdma_double::delivery::at_poll));
}
TEST_P(hostile_verbs, lose_their_lane_at_once) {
  run_test(run_attack(GetParam(), rdma_double::delivery::at_post));
}

INSTANTIATE_TEST_SUITE_P(verbs, hostile_verbs, testing::ValuesIn(attacks()),
                         [](const auto& which) { return which.param.name; });

}  // namespace
}  // namespace tandem::test
