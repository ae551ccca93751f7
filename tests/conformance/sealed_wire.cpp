// What an attacker on the path sees and can do, which settings allow encryption, and the errors of
// two ends that disagree on it.

#include <fmt/format.h>

#include <array>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>

#include "conformance/pairs.hpp"
#include "fabric/proof.hpp"
#include "support/channel_case.hpp"
#include "support/expected_log.hpp"
#include "support/rails_rig.hpp"
#include "support/reserved_port.hpp"
#include "support/wire_tap.hpp"

namespace tandem::test {
namespace {

settings with_encryption(bool encrypt) {
  settings s = small_settings();
  s.job_secret = secret(std::string_view("a secret of this job"));
  s.encrypt = encrypt;
  return s;
}

/// Does not occur by chance.
const std::string words = "nobody but the two of us may read this";
/// At the start of every frame.
const std::string magic = "TNDM";

awaitable<void> send_words(channel& on, flow_id flow, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += words;
  co_await on.send(flow, std::string_view(text));
}

awaitable<void> receive_words(channel& on, flow_id flow, std::size_t times) {
  std::string into(times * words.size(), '\0');
  const std::size_t bytes = co_await on.recv(flow, mutable_view(into));
  EXPECT_EQ(bytes, into.size());
  EXPECT_EQ(into.substr(into.size() - words.size()), words);
}

/// Short and long messages, both ways.
awaitable<void> talk(channel& a, channel& b) {
  std::vector<awaitable<void>> all;
  for (const std::size_t times : {std::size_t{1}, std::size_t{500}}) {
    all.push_back(send_words(a, 0, times));
    all.push_back(receive_words(b, 0, times));
    all.push_back(send_words(b, 1, times));
    all.push_back(receive_words(a, 1, times));
  }
  co_await when_all(std::move(all));
}

struct tapped_pair {
  channel_pair ends;
  std::shared_ptr<wire_tap> tap;
};

awaitable<tapped_pair> connect_tapped_tcp(settings options,
                                          std::optional<std::size_t> flip_at = {}) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0, options);
  tapped_pair made;
  made.tap = wire_tap::open(executor, {asio::ip::address_v4::loopback(), listener.port()});
  if (flip_at) made.tap->flip_at(*flip_at);
  const std::uint16_t port = made.tap->endpoint().port();
  made.ends.first = co_await tcp::connect("127.0.0.1", port, options);
  made.ends.second = co_await listener.accept();
  co_return made;
}

awaitable<void> tcp_is_read(bool encrypt) {
  tapped_pair pair = co_await connect_tapped_tcp(with_encryption(encrypt));
  co_await talk(*pair.ends.first, *pair.ends.second);
  EXPECT_GT(pair.tap->recorded_bytes(), 2 * 501 * words.size());
  if (encrypt) {
    EXPECT_EQ(pair.tap->count(words.substr(0, 12)), 0u);
    EXPECT_EQ(pair.tap->count(magic), 2u);  // of the hellos
  } else {
    EXPECT_GE(pair.tap->count(words), 2 * 450u);  // some cross a chunk boundary
  }
}

TEST(sealed_wire, of_tcp_shows_nothing) {
  run_test(tcp_is_read(true));
}
TEST(sealed_wire, of_tcp_shows_all_where_it_is_not_sealed) {
  run_test(tcp_is_read(false));
}

awaitable<void> rails_are_read(bool encrypt) {
  const auto rig = co_await rails_rig::connect(with_encryption(encrypt), 2, true);
  const channel_pair ends = rig->channels();
  co_await talk(*ends.first, *ends.second);
  EXPECT_GT(rig->tap->recorded_bytes(), 2 * 501 * words.size());
  if (encrypt) {
    EXPECT_EQ(rig->tap->count(words.substr(0, 12)), 0u);
    EXPECT_EQ(rig->tap->count(magic), 0u);
  } else {
    EXPECT_GE(rig->tap->count(words), 2 * 450u);
  }
}

TEST(sealed_wire, of_rails_shows_nothing) {
  run_test(rails_are_read(true));
}
TEST(sealed_wire, of_rails_shows_all_where_it_is_not_sealed) {
  run_test(rails_are_read(false));
}

/// For any byte of a record: length, text or tag.
awaitable<void> changed_on_tcp(std::size_t byte_of_record) {
  constexpr std::size_t before = transport::hello_bytes + trust::digest_bytes;
  tapped_pair pair = co_await connect_tapped_tcp(with_encryption(true), before + byte_of_record);
  channel& from = *pair.ends.first;
  background receiver(from.get_executor(), receive_words(*pair.ends.second, 0, 1));
  // A record with a larger length includes the bytes that follow.
  std::vector<background> senders;
  for (int i = 0; i < 5; ++i) senders.emplace_back(from.get_executor(), send_words(from, 0, 1));
  const auto failure = co_await receiver.failure();
  expect_error(failure, errc::protocol_violation, {"sealed record"});
  const auto failure_of_other = co_await failure_of(receive_words(from, 1, 1));
  EXPECT_TRUE(failure_of_other.has_value());
  for (background& one : senders) co_await one.failure();
}

TEST(sealed_wire, a_changed_byte_ends_a_connection_of_tcp) {
  expect_log("a sealed record");
  const std::size_t record_bytes = 4 + protocol::frame_bytes + words.size() + 16;
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3},
                               std::size_t{4}, std::size_t{80}, record_bytes - 1}) {
    SCOPED_TRACE(at);
    run_test(changed_on_tcp(at));
  }
}

awaitable<void> changed_on_rails(std::size_t byte_of_lane) {
  const auto rig = co_await rails_rig::connect(with_encryption(true), 2, true);
  const channel_pair ends = rig->channels();
  rig->tap->flip_at(2 * sizeof(std::uint32_t) + byte_of_lane);
  rig->cut(0);
  const auto is_up_again = [&rig] {
    return rig->ends[0]->state().lane_epoch(0) >= 3 && rig->ends[0]->state().is_live(0);
  };
  while (!is_up_again()) co_await talk(*ends.first, *ends.second);
  EXPECT_EQ(rig->ends[0]->state().lane_epoch(0), 3u);
  co_await expect_usable(*ends.first, *ends.second);
}

TEST(sealed_wire, a_changed_byte_ends_a_lane_and_nothing_else) {
  for (const std::size_t at : {std::size_t{2}, std::size_t{4}, std::size_t{40}}) {
    SCOPED_TRACE(at);
    run_test(changed_on_rails(at));
  }
}

awaitable<void> disagree(bool listener_encrypts) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const settings here = with_encryption(listener_encrypts);
  tcp::listener listener(executor, "127.0.0.1", 0, here);
  const auto failure =
      co_await failure_of(connect_by_tcp(listener.port(), with_encryption(!listener_encrypts)));
  expect_error(failure, errc::bad_option,
               {fmt::format("{} has encrypt={:d}, the connecting peer has encrypt={:d}",
                            listener.port(), listener_encrypts, !listener_encrypts),
                "TANDEM_ENCRYPT"});
  const auto is_counted = [&listener] { return listener.rejected_connections() == 1; };
  co_await until(is_counted, "the other setting to be counted");
  std::unique_ptr<channel> remote = co_await tcp::connect("127.0.0.1", listener.port(), here);
  std::unique_ptr<channel> local = co_await listener.accept();
  co_await expect_usable(*local, *remote);
}

TEST(sealed_trust, an_end_that_encrypts_refuses_one_that_does_not) {
  expect_log("this rank has encrypt=1, the connecting peer has encrypt=0");
  run_test(disagree(true));
}
TEST(sealed_trust, an_end_that_does_not_refuses_one_that_encrypts) {
  expect_log("this rank has encrypt=0, the connecting peer has encrypt=1");
  run_test(disagree(false));
}

launch_info job_of(int size, int rank, std::uint16_t port) {
  launch_info who;
  who.size = who.local_size = size;
  who.rank = who.local_rank = rank;
  who.address = "127.0.0.1";
  who.port = port;
  who.job = "sealed";
  return who;
}

awaitable<std::unique_ptr<fabric>> make_fabric(launch_info who, settings options) {
  std::shared_ptr<store> rendezvous = co_await store::meet(who, options);
  if (options.rails.empty()) {
    std::unique_ptr<fabric> made = co_await tcp::make_fabric(std::move(rendezvous), options);
    co_return made;
  }
  std::unique_ptr<fabric> made = co_await rails::make_fabric(std::move(rendezvous), options);
  co_return made;
}

awaitable<void> make_only(launch_info who, settings options) {
  std::unique_ptr<fabric> made = co_await make_fabric(std::move(who), std::move(options));
}

awaitable<void> without_secret() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  settings options = small_settings();
  options.encrypt = true;
  const std::initializer_list<std::string> complaint{"encrypt=1 needs a job secret",
                                                     "TANDEM_SECRET_FILE"};
  const auto of_connect = co_await failure_of(connect_by_tcp(1, options));
  expect_error(of_connect, errc::bad_option, complaint);
  EXPECT_THROW(tcp::listener(executor, "127.0.0.1", 0, options), error);
  for (const std::string rails : {"", "127.0.0.1"}) {
    options.rails = rails;
    const reserved_port port;
    const launch_info who = job_of(1, 0, port.number());
    const auto of_fabric = co_await failure_of(make_only(who, options));
    expect_error(of_fabric, errc::bad_option, complaint);
  }
}

TEST(sealed_trust, without_a_secret_nothing_is_encrypted) {
  run_test(without_secret());
}

using failures = std::array<std::optional<error>, 2>;

awaitable<void> rank_of_two(launch_info who, settings options, failures& of_ranks) {
  std::unique_ptr<fabric> local = co_await make_fabric(who, options);
  try {
    co_await local->to(1 - who.rank);
  } catch (const error& e) {
    of_ranks[static_cast<std::size_t>(who.rank)] = e;
  }
  const auto both_failed = [&of_ranks] { return of_ranks[0] && of_ranks[1]; };
  co_await until(both_failed, "both refusals");
  local->close();
}

awaitable<void> fabrics_disagree(std::string rails) {
  const reserved_port port;
  failures of_ranks;
  std::vector<awaitable<void>> ranks;
  for (const int rank : {0, 1}) {
    settings options = with_encryption(rank == 1);
    options.rails = rails;
    ranks.push_back(rank_of_two(job_of(2, rank, port.number()), options, of_ranks));
  }
  co_await when_all(std::move(ranks));
  for (const auto& failure : of_ranks) {
    expect_error(failure, errc::bad_option, {"encrypt=0", "encrypt=1", "TANDEM_ENCRYPT"});
  }
}

TEST(sealed_trust, ranks_of_a_job_that_disagree_get_an_error) {
  expect_log("the connecting peer has encrypt=");
  for (const std::string rails : {"", "127.0.0.1"}) run_test(fabrics_disagree(rails));
}

}  // namespace
}  // namespace tandem::test
