// Fabrics of every kind: all ranks in this process, on one io_context.

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/fabric.hpp>
#include <tandem/store.hpp>

#include "doubles/rdma/on_loopback.hpp"
#include "support/channel_case.hpp"
#include "support/fabric_maker.hpp"
#include "support/reserved_port.hpp"

namespace tandem::test {
namespace {

struct fabric_case {
  std::string name;
  awaitable<fabrics> (*make)(int size);
  bool rdma = false;  ///< needs an RDMA device
};

awaitable<fabrics> make_plain(int size) {
  return make_local(size);
}

awaitable<fabrics> make_tcp(int size) {
  return make_job(size, settings{});
}

awaitable<fabrics> make_trusted_tcp(int size) {
  settings options;
  options.job_secret = secret(std::string_view("a secret of this job"));
  return make_job(size, options);
}

awaitable<fabrics> make_rails(int size) {
  settings options;
  options.rails = "127.0.0.1,127.0.0.2";
  options.job_secret = secret(std::string_view("sixteen bytes or more"));
  return make_job(size, options);
}

awaitable<fabrics> make_rdma(int size) {
  return make_job(size, rdma_settings(rdma_use::on));
}

awaitable<fabrics> make_rdma_and_tcp(int size) {
  return make_job(size, rdma_settings(rdma_use::both));
}

awaitable<fabrics> make_sealed_tcp(int size) {
  settings options;
  options.job_secret = secret(std::string_view("a secret of this job"));
  options.encrypt = true;
  return make_job(size, options);
}

awaitable<fabrics> make_sealed_rails(int size) {
  settings options;
  options.rails = "127.0.0.1,127.0.0.2";
  options.job_secret = secret(std::string_view("sixteen bytes or more"));
  options.encrypt = true;
  return make_job(size, options);
}

awaitable<fabrics> make_shm(int size) {
  return make_job(size, settings{}, shm::make_fabric);
}

awaitable<fabrics> make_trusted_shm(int size) {
  settings options;
  options.job_secret = secret(std::string_view("a secret of this job"));
  options.shm_single_copy = single_copy::on;
  return make_job(size, options, shm::make_fabric);
}

/// Traffic within the host needs neither keys nor agreement on encryption.
awaitable<fabrics> make_unsealed_shm(int size) {
  settings options;
  options.encrypt = true;
  return make_job(size, options, shm::make_fabric);
}

awaitable<fabrics> make_two_hosts(int size) {
  return make_job(size, settings{}, make_mixed);
}

awaitable<fabrics> make_two_hosts_on_rails(int size) {
  settings options;
  options.rails = "127.0.0.1,127.0.0.2";
  options.job_secret = secret(std::string_view("sixteen bytes or more"));
  return make_job(size, options, make_mixed);
}

fabrics on_top_of(fabrics all) {
  for (std::unique_ptr<fabric>& each : all) {
    each = devices::make_fabric(std::move(each), settings{});
  }
  return all;
}

awaitable<fabrics> make_devices_over_local(int size) {
  fabrics all = co_await make_local(size);
  co_return on_top_of(std::move(all));
}

awaitable<fabrics> make_devices_over_tcp(int size) {
  fabrics all = co_await make_tcp(size);
  co_return on_top_of(std::move(all));
}

awaitable<fabrics> make_devices_over_two_hosts(int size) {
  fabrics all = co_await make_two_hosts(size);
  co_return on_top_of(std::move(all));
}

/// The devices outlive everything that runs.
class fabric_test : public testing::TestWithParam<fabric_case> {
  void SetUp() override {
    if (GetParam().rdma) devices_ = rdma_on_loopback();
  }
  std::unique_ptr<rdma_double> devices_;
};

std::uint64_t seed_of(int from, int to) {
  return static_cast<std::uint64_t>(from * 100 + to);
}

/// Both ends connect at the same time.
awaitable<void> talk(fabric& self, int peer) {
  channel& to = co_await self.to(peer);
  background sender(self.get_executor(), send_pattern(to, 0, 300'000, seed_of(self.rank(), peer)));
  co_await recv_pattern(to, 0, 300'000, seed_of(peer, self.rank()));
  co_await sender.result();
  EXPECT_EQ(self.find(peer), &to);
}

awaitable<void> talk_pair(fabric& a, fabric& b) {
  std::vector<awaitable<void>> both;
  both.push_back(talk(a, b.rank()));
  both.push_back(talk(b, a.rank()));
  co_await when_all(std::move(both));
}

awaitable<void> all_pairs_at_once(awaitable<fabrics> (*make)(int size)) {
  constexpr int size = 4;
  fabrics all = co_await make(size);
  std::vector<awaitable<void>> talks;
  for (const auto& self : all) {
    EXPECT_EQ(self->size(), size);
    for (int peer = 0; peer < size; ++peer) {
      if (peer != self->rank()) talks.push_back(talk(*self, peer));
    }
  }
  co_await when_all(std::move(talks));
  for (const auto& self : all) self->close();
}

TEST_P(fabric_test, all_pairs_connect_at_once) {
  run_test(all_pairs_at_once(GetParam().make), drive::by_asio, 60s);
}

awaitable<std::size_t> wait_for_ever(fabric& self, int peer) {
  channel& from = co_await self.to(peer);
  std::vector<std::byte> into(10);
  const std::size_t length = co_await from.recv(1, into);
  co_return length;
}

/// Pending operations of every rank with every other, then rank 2 is lost.
awaitable<void> lose_rank_two(awaitable<fabrics> (*make)(int size), bool by_failure) {
  constexpr int size = 4;
  fabrics all = co_await make(size);
  std::vector<std::pair<int, background>> waiting;
  for (const auto& self : all) {
    for (int peer = 0; peer < size; ++peer) {
      if (peer == self->rank() || self->rank() == 2) continue;
      waiting.emplace_back(self->rank(),
                           background(self->get_executor(), wait_for_ever(*self, peer)));
    }
  }
  const auto connected = [&all] {
    for (const auto& self : all) {
      for (int peer = 0; peer < size; ++peer) {
        if (peer != self->rank() && self->find(peer) == nullptr) return false;
      }
    }
    return true;
  };
  co_await until(connected, "all channels");
  co_await turns(20);
  if (by_failure) {
    all[2]->fail(error(make_error_code(errc::bad_input), {.peer = 2,
                                                          .rail = {},
                                                          .phase = {},
                                                          .detail = "rank 2 cannot read its data",
                                                          .advice = {}}));
  } else {
    all[2].reset();
  }
  const error_code expected = make_error_code(by_failure ? errc::bad_input : errc::peer_lost);
  for (auto& [rank, part] : waiting) {
    const auto failure = co_await part.failure();
    expect_error(failure, expected, {"rank 2"});
    EXPECT_EQ(failure->context().peer, 2) << failure->what();
    EXPECT_EQ(failure->context().rank, rank) << failure->what();
  }
  // Later calls get the same error.
  const auto later = co_await failure_of(wait_for_ever(*all[0], 1));
  expect_error(later, expected, {"rank 2"});
}

TEST_P(fabric_test, a_lost_rank_is_named_to_all) {
  run_test(lose_rank_two(GetParam().make, false), drive::by_asio, 60s);
}

TEST_P(fabric_test, a_failure_reaches_all) {
  run_test(lose_rank_two(GetParam().make, true), drive::by_asio, 60s);
}

/// A rank that leaves in order does not affect the others.
awaitable<void> leave_early(awaitable<fabrics> (*make)(int size)) {
  fabrics all = co_await make(3);
  co_await talk_pair(*all[0], *all[1]);
  co_await talk_pair(*all[1], *all[2]);
  co_await talk_pair(*all[0], *all[2]);
  background waiting(all[0]->get_executor(), wait_for_ever(*all[0], 2));
  co_await turns(5);
  all[2]->close();
  all[2].reset();
  const auto failure = co_await waiting.failure();
  expect_error(failure, errc::peer_closed, {"peer rank 2"});
  for (int i = 0; i < 3; ++i) co_await talk_pair(*all[0], *all[1]);
}

TEST_P(fabric_test, a_rank_may_leave_early) {
  run_test(leave_early(GetParam().make), drive::by_asio, 60s);
}

/// Rank 1 pretends to be on another host.
awaitable<std::unique_ptr<fabric>> make_elsewhere(std::shared_ptr<store> rendezvous,
                                                  settings options) {
  if (rendezvous->who().rank == 0)
    return shm::make_fabric(std::move(rendezvous), std::move(options));
  const auto pretend = [](std::shared_ptr<store> from) -> awaitable<std::unique_ptr<fabric>> {
    co_await from->set("shm/1", "another-boot:4026531840 tandem-1");
    co_await from->get(std::vector<std::string>(1, "over"), 10s);
    co_return nullptr;
  };
  return pretend(std::move(rendezvous));
}

awaitable<void> look_for_rank_one(launch_info who, settings options) {
  std::shared_ptr<store> rendezvous = co_await store::meet(who, options);
  std::unique_ptr<fabric> self = co_await make_elsewhere(rendezvous, options);
  if (who.rank == 0) {
    const auto failure = co_await failure_of(wait_for_ever(*self, 1));
    expect_error(failure, errc::unreachable, {"rank 1 is on another host", "--channel tcp"});
    co_await rendezvous->set("over", "1");
    self->close();
  }
  rendezvous->leave();
}

awaitable<void> one_elsewhere() {
  const reserved_port port;
  launch_info who;
  who.size = 2;
  who.address = "127.0.0.1";
  who.port = port.number();
  std::vector<awaitable<void>> ranks;
  for (who.rank = 0; who.rank < 2; ++who.rank) {
    ranks.push_back(look_for_rank_one(who, settings{}));
  }
  co_await when_all(std::move(ranks));
}

TEST(shm_fabric, a_rank_on_another_host_is_named) {
  run_test(one_elsewhere());
}

INSTANTIATE_TEST_SUITE_P(
    kinds, fabric_test,
    testing::Values(fabric_case{"local", make_plain}, fabric_case{"tcp", make_tcp},
                    fabric_case{"tcp_trusted", make_trusted_tcp},
                    fabric_case{"tcp_sealed", make_sealed_tcp}, fabric_case{"rails", make_rails},
                    fabric_case{"rails_sealed", make_sealed_rails},
                    fabric_case{"rails_rdma", make_rdma, true},
                    fabric_case{"rails_rdma_and_tcp", make_rdma_and_tcp, true},
                    fabric_case{"shm", make_shm}, fabric_case{"shm_trusted", make_trusted_shm},
                    fabric_case{"shm_unsealed", make_unsealed_shm},
                    fabric_case{"mixed", make_two_hosts},
                    fabric_case{"devices_over_local", make_devices_over_local},
                    fabric_case{"devices_over_tcp", make_devices_over_tcp},
                    fabric_case{"devices_over_mixed", make_devices_over_two_hosts},
                    fabric_case{"mixed_rails", make_two_hosts_on_rails}),
    [](const auto& which) { return which.param.name; });

}  // namespace
}  // namespace tandem::test
