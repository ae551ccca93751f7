// A transport for each pair of ranks: which one, and that both ends agree.

#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/fabric.hpp>

#include "mixed/fabric.hpp"
#include "mixed/rank_location.hpp"
#include "support/channel_case.hpp"
#include "support/fabric_maker.hpp"
#include "transports/tcp/mesh.hpp"

namespace tandem::test {
namespace {

awaitable<void> connect(fabric& self, int peer) {
  channel& to = co_await self.to(peer);
  EXPECT_EQ(self.find(peer), &to);
}

/// Connects every rank with every other, from both ends at once.
awaitable<void> connect_all(fabrics& all) {
  std::vector<awaitable<void>> connects;
  for (const auto& self : all) {
    for (int peer = 0; peer < self->size(); ++peer) {
      if (peer != self->rank()) connects.push_back(connect(*self, peer));
    }
  }
  co_await when_all(std::move(connects));
}

/// A line for each rank, a letter for each peer: the transport.
std::vector<std::string> kinds_of(const fabrics& all) {
  std::vector<std::string> lines;
  for (const auto& self : all) {
    std::string line;
    for (int peer = 0; peer < self->size(); ++peer) {
      line += peer == self->rank() ? '-' : self->kind_to(peer).front();
    }
    lines.push_back(line);
  }
  return lines;
}

awaitable<void> expect_kinds(fabric_maker make, settings options, std::vector<std::string> lines) {
  fabrics all = co_await make_job(static_cast<int>(lines.size()), options, make);
  for (const auto& self : all) {
    EXPECT_EQ(self->kind(), "mixed");
    const int other = self->rank() == 0 ? 1 : 0;
    EXPECT_EQ(self->kind_to(other), "mixed");
    EXPECT_EQ(self->find(other), nullptr);
  }
  co_await connect_all(all);
  EXPECT_EQ(kinds_of(all), lines);
  std::vector<awaitable<void>> talks;
  for (std::size_t peer = 1; peer < all.size(); ++peer) {
    const int number = static_cast<int>(peer);
    talks.push_back(expect_usable(*all[0]->find(number), *all[peer]->find(0)));
  }
  co_await when_all(std::move(talks));
  for (const auto& self : all) self->close();
}

settings with_rails() {
  settings options;
  options.rails = "127.0.0.1,127.0.0.2";
  options.job_secret = secret(std::string_view("sixteen bytes or more"));
  return options;
}

TEST(mixed_fabric, is_shared_memory_within_a_host_and_tcp_across) {
  run_test(expect_kinds(make_mixed, {}, {"-stt", "s-tt", "tt-s", "tts-"}));
}

TEST(mixed_fabric, is_rails_across_where_settings_ask_for_them) {
  run_test(expect_kinds(make_mixed, with_rails(), {"-srr", "s-rr", "rr-s", "rrs-"}));
}

TEST(mixed_fabric, is_shared_memory_for_all_of_one_host) {
  run_test(expect_kinds(mixed::make_fabric, {}, {"-ss", "s-s", "ss-"}));
}

/// Replaces shared memory, as where the kernel has none.
class no_memory final : public tcp::mesh {
 public:
  using tcp::mesh::mesh;
  awaitable<void> open() override { throw error(errc::limit_exceeded, "no shared memory"); }
};

std::shared_ptr<transport::fabric_base> make_no_memory(std::shared_ptr<store> part,
                                                       settings options,
                                                       asio::any_io_executor executor) {
  return std::make_shared<no_memory>(std::move(part), std::move(options), std::move(executor));
}

awaitable<std::unique_ptr<fabric>> make_rank_one_without_shm(std::shared_ptr<store> rendezvous,
                                                             settings options) {
  if (rendezvous->who().rank != 1)
    return mixed::make_fabric(std::move(rendezvous), std::move(options));
  return mixed::make_fabric(std::move(rendezvous), std::move(options), make_no_memory);
}

TEST(mixed_fabric, a_rank_without_shared_memory_is_reached_by_tcp_from_both_ends) {
  run_test(expect_kinds(make_rank_one_without_shm, {}, {"-ts", "t-t", "st-"}));
}

awaitable<std::unique_ptr<fabric>> make_rank_one_on_rails(std::shared_ptr<store> rendezvous,
                                                          settings options) {
  if (rendezvous->who().rank != 1) options.rails.clear();
  return make_mixed(std::move(rendezvous), std::move(options));
}

awaitable<void> expect_rails_refused() {
  fabrics all = co_await make_job(2, with_rails(), make_rank_one_on_rails);
  for (const auto& self : all) {
    const auto failure = co_await failure_of(connect(*self, 1 - self->rank()));
    expect_error(failure, errc::bad_option,
                 {"rails", "tcp", "give --rails to all ranks or to none"});
  }
  for (const auto& self : all) self->close();
}

TEST(mixed_fabric, rails_on_one_side_alone_are_refused_on_both) {
  run_test(expect_rails_refused());
}

/// Rank 1 leaves before it has published its location.
awaitable<std::unique_ptr<fabric>> make_without_rank_one(std::shared_ptr<store> rendezvous,
                                                         settings options) {
  if (rendezvous->who().rank == 1) {
    co_await turns(50);
    co_return nullptr;
  }
  std::unique_ptr<fabric> self = co_await mixed::make_fabric(std::move(rendezvous), options);
  const auto failure = co_await failure_of(connect(*self, 1));
  expect_error(failure, errc::peer_lost, {"rank 1 is gone"});
  EXPECT_EQ(failure->context().rank, self->rank());
  co_return self;
}

awaitable<void> lose_rank_one() {
  const fabrics all = co_await make_job(3, settings{}, make_without_rank_one);
  EXPECT_EQ(all[1], nullptr);
}

TEST(mixed_fabric, a_rank_lost_before_it_publishes_its_location_ends_the_wait) {
  run_test(lose_rank_one());
}

awaitable<void> connect_to_invalid_peers() {
  fabrics all = co_await make_job(2, settings{}, make_mixed);
  for (const int peer : {-1, 0, 2}) {
    const auto failure = co_await failure_of(connect(*all[0], peer));
    expect_error(failure, errc::bad_input, {"rank 0 has no channel"});
  }
  all[0]->close();
  const auto failure = co_await failure_of(connect(*all[0], 1));
  expect_error(failure, errc::channel_closed, {"this rank has left"});
  all[1]->close();
}

TEST(mixed_fabric, an_invalid_peer_and_a_rank_that_has_left_are_errors) {
  run_test(connect_to_invalid_peers());
}

TEST(mixed_location, is_parsed_as_written) {
  const mixed::rank_location here{"tcp", "a kernel\nof two lines"};
  EXPECT_EQ(mixed::rank_location::parse(here.text()).inter_host, here.inter_host);
  EXPECT_TRUE(mixed::share_memory(here, mixed::rank_location::parse(here.text())));
  EXPECT_FALSE(mixed::share_memory(here, {"tcp", "another"}));
  EXPECT_FALSE(mixed::share_memory({"tcp", ""}, {"tcp", ""}));
  EXPECT_EQ(mixed::rank_location::parse("no place").inter_host, "");
}

TEST(mixed_location, depends_on_the_name_of_the_host) {
  settings a, b;
  b.host = "b";
  EXPECT_EQ(mixed::local_sharing_domain(a), mixed::local_sharing_domain(a));
  EXPECT_NE(mixed::local_sharing_domain(a), mixed::local_sharing_domain(b));
}

}  // namespace
}  // namespace tandem::test
