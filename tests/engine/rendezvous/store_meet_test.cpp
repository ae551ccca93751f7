#include <array>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "rendezvous/store_protocol.hpp"
#include "store_fixture.hpp"
#include "support/expected_log.hpp"

namespace {

using namespace store_testing;
using tandem::test::expect_log;
namespace wire = tandem::rendezvous;
class store_meet_test : public store_job {};

/// Another program: sends something to each connection, and closes it or not.
class other_program {
 public:
  other_program(asio::io_context& io, std::uint16_t port, std::string reply, bool closes)
      : acceptor_(io), reply_(std::move(reply)), closes_(closes) {
    acceptor_.open(tcp::v4());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind({asio::ip::address_v4::loopback(), port});
    acceptor_.listen();
    accept();
  }

 private:
  void accept() {
    acceptor_.async_accept([this](tandem::error_code failed, tcp::socket s) {
      if (failed) return;
      tcp::socket& kept = sockets_.emplace_back(std::move(s));
      // Only after the client's first bytes, like an HTTP server.
      kept.async_read_some(asio::buffer(received_), [this, &kept](tandem::error_code, std::size_t) {
        tandem::error_code ignored;
        asio::write(kept, asio::buffer(reply_), ignored);
        if (closes_) kept.close(ignored);
      });
      accept();
    });
  }

  tcp::acceptor acceptor_;
  std::string reply_;
  bool closes_;
  std::deque<tcp::socket> sockets_;
  std::array<char, 4096> received_{};
};

// --- rendezvous

TEST_F(store_meet_test, any_number_joins_in_any_order) {
  for (int size = 1; size <= 5; ++size) {
    for (int first = 0; first < size; ++first) {
      std::vector<join_result*> each;
      for (int i = 0; i < size; ++i) {
        each.push_back(&join(launch_as((first + i) % size, size)));
        // The others try to connect for some time before rank 0 starts.
        for (int turn = 0; turn < 20; ++turn) io_.poll_one();
        io_.restart();
      }
      run_until([&] { return all_done(each); });
      for (const join_result* one : each) {
        ASSERT_TRUE(one->value) << (one->failure ? one->failure->what() : one->other);
        EXPECT_EQ((*one->value)->local_address(), "127.0.0.1");
        EXPECT_EQ((*one->value)->who().size, size);
      }
      for (join_result* one : each) (*one->value)->leave();
      joins_.clear();
      io_.restart();
      io_.run();  // nothing is left once all have closed
    }
  }
}

TEST_F(store_meet_test, host_name_is_accepted) {
  tandem::launch_info who = launch_as(0, 1);
  who.address = "localhost";
  const auto s = finish(tandem::store::meet(who, within(timeout)));
  ASSERT_TRUE(s.value) << (s.failure ? s.failure->what() : s.other);
}

TEST_F(store_meet_test, missing_ranks_are_named_to_joined_ranks) {
  const milliseconds limit(1'500);
  std::vector<join_result*> each;
  for (const int rank : {0, 1, 3, 4}) each.push_back(&join(launch_as(rank, 6), limit));
  run_until([&] { return all_done(each); });
  for (const join_result* one : each) {
    EXPECT_TRUE(is(one->failure, errc::rank_missing,
                   {"ranks 2, 5 did not join within 1.5 s: 4 of 6 are connected", port_.text()}));
    EXPECT_STREQ(one->failure->what(), each[0]->failure->what());
  }
}

TEST_F(store_meet_test, duplicate_rank_and_wrong_size_are_refused) {
  expect_log("has already joined");
  expect_log("was started as one of 4 ranks");
  expect_log("this rank belongs to job 'another'");
  std::vector<join_result*> good{&join(launch_as(0, 3)), &join(launch_as(1, 3))};
  run_ready();
  join_result& second = join(launch_as(1, 3));
  run_until([&] { return second.done || good[1]->done; });
  // Either of the two may have connected first.
  join_result& refused = second.done ? second : *good[1];
  EXPECT_TRUE(
      is(refused.failure, errc::rank_taken, {"rank 1", port_.text(), "has already joined"}));
  if (!second.done) good[1] = &second;
  join_result& other_size = join(launch_as(2, 4));
  run_until([&] { return other_size.done; });
  EXPECT_TRUE(is(other_size.failure, errc::size_mismatch, {"one of 4 ranks", "one of 3"}));
  EXPECT_EQ(other_size.failure->context().rank, 2);
  tandem::launch_info foreign_rank = launch_as(2, 3);
  foreign_rank.job = "another";
  join_result& other_job = join(foreign_rank);
  run_until([&] { return other_job.done; });
  EXPECT_TRUE(is(other_job.failure, errc::job_mismatch, {"'job'", "'another'"}));
  good.push_back(&join(launch_as(2, 3)));
  run_until([&] { return all_done(good); });
  for (const join_result* one : good) EXPECT_TRUE(one->value) << one->other;
}

TEST_F(store_meet_test, rank_cancelled_during_rendezvous_is_named) {
  expect_log("has already joined");
  join_result& zero = join(launch_as(0, 3));
  // Two processes claim rank 1. When one is refused, the other has been accepted and waits.
  std::array<asio::cancellation_signal, 2> signals;
  std::array<join_result, 2> claims;
  for (std::size_t i = 0; i < 2; ++i) {
    join_result& claim = claims[i];
    asio::co_spawn(
        io_, tandem::store::meet(launch_as(1, 3), within(timeout)),
        asio::bind_cancellation_slot(
            signals[i].slot(),
            [&claim](std::exception_ptr e, std::shared_ptr<tandem::store>) { claim.end(e); }));
  }
  run_until([&] { return claims[0].done || claims[1].done; });
  const std::size_t waiting = claims[0].done ? 1 : 0;
  EXPECT_TRUE(is(claims[1 - waiting].failure, errc::rank_taken, {"rank 1"}));
  EXPECT_FALSE(zero.done);
  signals[waiting].emit(asio::cancellation_type::terminal);
  run_until([&] { return claims[waiting].done && zero.done; });
  EXPECT_FALSE(claims[waiting].other.empty());
  EXPECT_TRUE(is(zero.failure, errc::peer_lost, {"rank 1 is gone"}));
}

TEST_F(store_meet_test, no_listener) {
  join_result& one = join(launch_as(1, 2), milliseconds(300));
  run_until([&] { return one.done; });
  EXPECT_TRUE(
      is(one.failure, errc::unreachable,
         {"rank 0 is unreachable at " + port_.text() + " for 0.3 s", "is rank 0 running?"}));
  EXPECT_EQ(one.failure->context().rank, 1);
  EXPECT_EQ(one.failure->context().peer, 0);
}

TEST_F(store_meet_test, unresolvable_host) {
  expect_log("host 'no-such-host.invalid' has no address yet");
  tandem::launch_info who = launch_as(1, 2);
  who.address = "no-such-host.invalid";
  join_result& one = join(who, milliseconds(400));
  run_until([&] { return one.done; });
  EXPECT_TRUE(is(one.failure, errc::unreachable, {"host 'no-such-host.invalid' has no address"}));
}

TEST_F(store_meet_test, port_in_use) {
  other_program busy(io_, port_.number(), "", false);
  join_result& zero = join(launch_as(0, 1), milliseconds(300));
  run_until([&] { return zero.done; });
  EXPECT_TRUE(is(zero.failure, errc::address_in_use,
                 {"port " + std::to_string(port_.number()), "127.0.0.1", "TANDEM_RENDEZVOUS"}));
}

TEST_F(store_meet_test, non_loopback_address_needs_a_secret) {
  for (const int rank : {0, 1}) {
    tandem::launch_info who = launch_as(rank, 2);
    who.address = "192.0.2.77";  // TEST-NET-1: never assigned
    join_result& open = join(who, milliseconds(300));
    run_until([&] { return open.done; });
    EXPECT_TRUE(is(open.failure, errc::bad_input, {"192.0.2.77", "secret", "TANDEM_INSECURE=1"}));
  }
  tandem::launch_info who = launch_as(0, 2);
  who.address = "192.0.2.77";
  tandem::settings options = within(milliseconds(300));
  options.insecure = true;
  const auto s = finish(tandem::store::meet(who, options));
  EXPECT_TRUE(
      is(s.failure, errc::bad_input, {"rank 0 cannot listen on 192.0.2.77", "own machine"}));
}

TEST_F(store_meet_test, another_rank_than_0_serves) {
  std::vector<join_result*> each;
  for (const int rank : {0, 2, 1}) {
    tandem::launch_info who = launch_as(rank, 3);
    who.serves_store = rank == 1;
    each.push_back(&join(who));
  }
  run_until([&] { return all_done(each); });
  for (const join_result* one : each)
    ASSERT_TRUE(one->value) << (one->failure ? one->failure->what() : one->other);
  // The store closes with the rank that serves it, and not with rank 0.
  (*each[0]->value)->leave();
  const auto& rank_2 = *each[1]->value;
  EXPECT_FALSE(finish(rank_2->add("counter", 1)).failure);
  (*each[2]->value)->leave();
  each[2]->value->reset();
  EXPECT_TRUE(is(finish(rank_2->add("counter", 1)).failure, errc::peer_closed, {}));
}

TEST_F(store_meet_test, invalid_rank_or_size) {
  for (const auto& [rank, size] : {std::pair{2, 2}, {-1, 2}, {0, 0}}) {
    const auto s = finish(tandem::store::meet(launch_as(rank, size), within(timeout)));
    EXPECT_TRUE(is(s.failure, errc::bad_input, {"rank " + std::to_string(rank)}));
  }
}

// --- other programs

TEST_F(store_meet_test, other_program_at_the_port) {
  other_program http(io_, port_.number(), "HTTP/1.1 400 Bad Request\r\n\r\n", true);
  join_result& one = join(launch_as(1, 2));
  run_until([&] { return one.done; });
  EXPECT_TRUE(
      is(one.failure, errc::not_tandem,
         {port_.text() + " answers but is not a Tandem store", "got 'HTTP/1.1 400 Bad Request"}));
}

TEST_F(store_meet_test, other_version_at_the_port) {
  other_program newer(io_, port_.number(), wire::encode_opening(7), true);
  join_result& one = join(launch_as(1, 2));
  run_until([&] { return one.done; });
  EXPECT_TRUE(is(one.failure, errc::version_mismatch,
                 {"version 7", "version " + std::to_string(wire::store_version), port_.text()}));
}

TEST_F(store_meet_test, silent_or_closing_program_at_the_port) {
  const std::vector<std::pair<bool, std::string>> cases{
      {false, "accepts connections but sends no reply"},
      {true, "closes connections before the handshake"}};
  for (const auto& [closes, excerpt] : cases) {
    other_program quiet(io_, port_.number(), "", closes);
    join_result& one = join(launch_as(1, 2), milliseconds(300));
    run_until([&] { return one.done; });
    EXPECT_TRUE(is(one.failure, errc::not_tandem, {port_.text(), excerpt, "0.3 s"}));
  }
}

TEST_F(store_meet_test, invalid_frame_after_valid_opening) {
  other_program wrong(io_, port_.number(), wire::encode_opening() + std::string("\1\0\0\0\x7f", 5),
                      false);
  join_result& one = join(launch_as(1, 2));
  run_until([&] { return one.done; });
  EXPECT_TRUE(is(one.failure, errc::protocol_violation, {port_.text()}));
}

TEST_F(store_meet_test, hostile_bytes_do_not_disturb_others) {
  // The first of each kind, and the number of others.
  expect_log("it is not a Tandem rank (sent 'GET /");
  expect_log("more of this kind");
  const std::vector<std::string> attacks{
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      std::string(100'000, '\0'),
      wire::encode_opening(1) + "more",
      wire::encode_opening() + std::string("\xff\xff\xff\xff", 4),
      wire::encode_opening() + std::string("\x01\x08\0\0", 4) + std::string(3000, 'x'),
      wire::encode_opening() + std::string("\2\0\0\0\x01x", 6),
      wire::encode_opening() + wire::encode(wire::store_request(wire::get_request{1, 1, {"k"}})),
      wire::encode_opening() + wire::encode(wire::store_request(wire::leave_request{}))};
  join_result& zero = join(launch_as(0, 2));
  run_ready();
  std::deque<tcp::socket> attackers;
  int ended = 0;
  std::array<char, 256> answer{};
  for (const std::string& bytes : attacks) {
    tcp::socket& s = attackers.emplace_back(io_);
    s.connect({asio::ip::address_v4::loopback(), port_.number()});
    tandem::error_code ignored;
    s.non_blocking(true);
    s.write_some(asio::buffer(bytes), ignored);
    // Handshake bytes may arrive first, then the end.
    asio::async_read(s, asio::buffer(answer),
                     [&ended](tandem::error_code, std::size_t) { ++ended; });
  }
  run_until([&] { return ended == static_cast<int>(attacks.size()); });
  EXPECT_FALSE(zero.done);
  join_result& one = join(launch_as(1, 2));
  run_until([&] { return zero.done && one.done; });
  ASSERT_TRUE(zero.value && one.value);
  const auto n = finish((*one.value)->add("n", 2));
  EXPECT_EQ(n.value, 2);
}

}  // namespace
