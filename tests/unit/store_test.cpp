#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <tandem/store.hpp>
#include <vector>

#include "rendezvous/store_wire.hpp"

namespace {

namespace asio = boost::asio;
namespace wire = tandem::rendezvous;
using asio::ip::tcp;
using std::chrono::milliseconds;
using tandem::errc;
using tandem::error;

constexpr std::chrono::seconds patience{30};

/// A port that nobody else gets while this lives: bound with SO_REUSEADDR and not listening, it
/// lets a listener share it, and the kernel hands it out to nobody.
class reserved_port {
 public:
  explicit reserved_port(asio::io_context& io) : socket_(io, tcp::v4()) {
    socket_.set_option(tcp::socket::reuse_address(true));
    socket_.bind({asio::ip::address_v4::loopback(), 0});
  }
  std::uint16_t number() const { return socket_.local_endpoint().port(); }
  std::string text() const { return "127.0.0.1:" + std::to_string(number()); }

 private:
  tcp::socket socket_;
};

/// What came of an awaitable.
template <class T>
struct outcome {
  bool done = false;
  std::optional<T> value;
  std::optional<error> failure;
  std::string other;

  void end(std::exception_ptr e) {
    done = true;
    try {
      if (e) std::rethrow_exception(e);
    } catch (const error& known) {
      failure = known;
    } catch (const std::exception& unknown) {
      other = unknown.what();
    }
  }
};

template <class T>
void start(asio::io_context& io, asio::awaitable<T> work, outcome<T>& into) {
  asio::co_spawn(io, std::move(work), [&into](std::exception_ptr e, T value) {
    if (!e) into.value = std::move(value);
    into.end(e);
  });
}

struct nothing {};
void start(asio::io_context& io, asio::awaitable<void> work, outcome<nothing>& into) {
  asio::co_spawn(io, std::move(work), [&into](std::exception_ptr e) { into.end(e); });
}

using met = outcome<std::shared_ptr<tandem::store>>;

class store_test : public testing::Test {
 protected:
  tandem::launch_info place(int rank, int size) const {
    tandem::launch_info who;
    who.rank = rank;
    who.size = size;
    who.address = "127.0.0.1";
    who.port = port_.number();
    who.job = "job";
    return who;
  }

  static tandem::settings within(milliseconds meet) {
    tandem::settings options;
    options.meet_timeout = meet;
    return options;
  }

  met& join(const tandem::launch_info& who, milliseconds limit = patience) {
    met& into = joins_.emplace_back();
    start(io_, tandem::store::meet(who, within(limit)), into);
    return into;
  }

  template <class Ready>
  void run_until(Ready ready) {
    const auto limit = std::chrono::steady_clock::now() + patience;
    io_.restart();
    while (!ready()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "nothing came of it";
      if (io_.stopped()) io_.restart();
      io_.run_one_for(milliseconds(100));
    }
  }

  /// Runs what is ready.
  void settle() {
    io_.restart();
    while (io_.poll() > 0) continue;
  }

  /// All ranks of a job of `size`, there.
  std::vector<std::shared_ptr<tandem::store>> all(int size) {
    std::vector<met*> each;
    for (int rank = 0; rank < size; ++rank) each.push_back(&join(place(rank, size)));
    run_until([&] { return all_done(each); });
    std::vector<std::shared_ptr<tandem::store>> stores;
    for (const met* one : each) {
      EXPECT_TRUE(one->value) << (one->failure ? one->failure->what() : one->other);
      stores.push_back(one->value.value_or(nullptr));
    }
    joins_.clear();
    return stores;
  }

  static bool all_done(const std::vector<met*>& each) {
    for (const met* one : each) {
      if (!one->done) return false;
    }
    return true;
  }

  template <class T>
  outcome<T> finish(asio::awaitable<T> work) {
    outcome<T> result;
    start(io_, std::move(work), result);
    run_until([&] { return result.done; });
    return result;
  }

  outcome<nothing> finish(asio::awaitable<void> work) {
    outcome<nothing> result;
    start(io_, std::move(work), result);
    run_until([&] { return result.done; });
    return result;
  }

  asio::io_context io_;
  reserved_port port_{io_};
  std::deque<met> joins_;
};

testing::AssertionResult is(const std::optional<error>& e, errc code,
                            const std::vector<std::string>& parts) {
  if (!e) return testing::AssertionFailure() << "no error";
  const std::string text = e->what();
  if (e->code() != code) return testing::AssertionFailure() << "another code: " << text;
  if (text.find('\n') != std::string::npos)
    return testing::AssertionFailure() << "two lines: " << text;
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) {
      return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
    }
  }
  return testing::AssertionSuccess();
}

struct heard {
  int times = 0;
  std::optional<error> reason;
};

void listen(tandem::store& s, heard& into) {
  s.on_lost([&into](const error& reason) {
    ++into.times;
    into.reason = reason;
  });
}

/// Another program: says something to whoever connects, and closes or not.
class other_program {
 public:
  other_program(asio::io_context& io, std::uint16_t port, std::string says, bool closes)
      : acceptor_(io), says_(std::move(says)), closes_(closes) {
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
      // Only after the client's first bytes, as an HTTP server does.
      kept.async_read_some(asio::buffer(came_), [this, &kept](tandem::error_code, std::size_t) {
        tandem::error_code ignored;
        asio::write(kept, asio::buffer(says_), ignored);
        if (closes_) kept.close(ignored);
      });
      accept();
    });
  }

  tcp::acceptor acceptor_;
  std::string says_;
  bool closes_;
  std::deque<tcp::socket> sockets_;
  std::array<char, 4096> came_{};
};

// --- meeting

TEST_F(store_test, any_number_meets_in_any_order) {
  for (int size = 1; size <= 5; ++size) {
    for (int first = 0; first < size; ++first) {
      std::vector<met*> each;
      for (int i = 0; i < size; ++i) {
        each.push_back(&join(place((first + i) % size, size)));
        // Others knock some time before a rank 0 that comes late.
        for (int turn = 0; turn < 20; ++turn) io_.poll_one();
        io_.restart();
      }
      run_until([&] { return all_done(each); });
      for (const met* one : each) {
        ASSERT_TRUE(one->value) << (one->failure ? one->failure->what() : one->other);
        EXPECT_EQ((*one->value)->local_address(), "127.0.0.1");
        EXPECT_EQ((*one->value)->who().size, size);
      }
      for (met* one : each) (*one->value)->leave();
      joins_.clear();
      io_.restart();
      io_.run();  // ends: nothing is left behind once all have left
    }
  }
}

TEST_F(store_test, a_host_name_will_do) {
  tandem::launch_info who = place(0, 1);
  who.address = "localhost";
  const auto s = finish(tandem::store::meet(who, within(patience)));
  ASSERT_TRUE(s.value) << (s.failure ? s.failure->what() : s.other);
}

TEST_F(store_test, missing_ranks_are_named_to_all_who_came) {
  const milliseconds limit(1'500);
  std::vector<met*> each;
  for (const int rank : {0, 1, 3, 4}) each.push_back(&join(place(rank, 6), limit));
  run_until([&] { return all_done(each); });
  for (const met* one : each) {
    EXPECT_TRUE(is(one->failure, errc::rank_missing,
                   {"ranks 2, 5 never came within 1.5 s: 4 of 6 are here", port_.text()}));
    EXPECT_STREQ(one->failure->what(), each[0]->failure->what());
  }
}

TEST_F(store_test, a_taken_rank_and_a_wrong_size_are_refused_and_the_others_meet) {
  std::vector<met*> good{&join(place(0, 3)), &join(place(1, 3))};
  settle();
  met& second = join(place(1, 3));
  run_until([&] { return second.done || good[1]->done; });
  // Either of the two may have come first.
  met& refused = second.done ? second : *good[1];
  EXPECT_TRUE(is(refused.failure, errc::rank_taken, {"rank 1", port_.text(), "already has come"}));
  if (!second.done) good[1] = &second;
  met& other_size = join(place(2, 4));
  run_until([&] { return other_size.done; });
  EXPECT_TRUE(is(other_size.failure, errc::size_mismatch, {"one of 4 ranks", "one of 3"}));
  EXPECT_EQ(other_size.failure->context().rank, 2);
  tandem::launch_info stranger = place(2, 3);
  stranger.job = "another";
  met& other_job = join(stranger);
  run_until([&] { return other_job.done; });
  EXPECT_TRUE(is(other_job.failure, errc::job_mismatch, {"'job'", "'another'"}));
  good.push_back(&join(place(2, 3)));
  run_until([&] { return all_done(good); });
  for (const met* one : good) EXPECT_TRUE(one->value) << one->other;
}

TEST_F(store_test, a_rank_that_is_cancelled_while_others_meet_is_named) {
  met& zero = join(place(0, 3));
  // Two claim rank 1. When one is refused, the other has been accepted and waits.
  std::array<asio::cancellation_signal, 2> signals;
  std::array<met, 2> claims;
  for (std::size_t i = 0; i < 2; ++i) {
    met& claim = claims[i];
    asio::co_spawn(
        io_, tandem::store::meet(place(1, 3), within(patience)),
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

TEST_F(store_test, nobody_there) {
  met& one = join(place(1, 2), milliseconds(300));
  run_until([&] { return one.done; });
  EXPECT_TRUE(is(one.failure, errc::unreachable,
                 {"nobody answered at " + port_.text() + " within 0.3 s", "is rank 0 running?"}));
  EXPECT_EQ(one.failure->context().rank, 1);
  EXPECT_EQ(one.failure->context().peer, 0);
}

TEST_F(store_test, a_host_without_an_address) {
  tandem::launch_info who = place(1, 2);
  who.address = "no-such-host.invalid";
  met& one = join(who, milliseconds(400));
  run_until([&] { return one.done; });
  EXPECT_TRUE(is(one.failure, errc::unreachable, {"host 'no-such-host.invalid' has no address"}));
}

TEST_F(store_test, a_port_in_use) {
  other_program busy(io_, port_.number(), "", false);
  met& zero = join(place(0, 1), milliseconds(300));
  run_until([&] { return zero.done; });
  EXPECT_TRUE(is(zero.failure, errc::address_in_use,
                 {"port " + std::to_string(port_.number()), "127.0.0.1", "TANDEM_RENDEZVOUS"}));
}

TEST_F(store_test, an_address_beyond_this_machine_needs_a_secret) {
  for (const int rank : {0, 1}) {
    tandem::launch_info who = place(rank, 2);
    who.address = "192.0.2.77";  // TEST-NET-1: nobody has it
    met& open = join(who, milliseconds(300));
    run_until([&] { return open.done; });
    EXPECT_TRUE(is(open.failure, errc::bad_input, {"192.0.2.77", "secret", "TANDEM_INSECURE=1"}));
  }
  tandem::launch_info who = place(0, 2);
  who.address = "192.0.2.77";
  tandem::settings options = within(milliseconds(300));
  options.insecure = true;
  const auto s = finish(tandem::store::meet(who, options));
  EXPECT_TRUE(
      is(s.failure, errc::bad_input, {"rank 0 cannot listen on 192.0.2.77", "own machine"}));
}

TEST_F(store_test, no_place_in_a_job) {
  for (const auto& [rank, size] : {std::pair{2, 2}, {-1, 2}, {0, 0}}) {
    const auto s = finish(tandem::store::meet(place(rank, size), within(patience)));
    EXPECT_TRUE(is(s.failure, errc::bad_input, {"rank " + std::to_string(rank)}));
  }
}

// --- other programs

TEST_F(store_test, another_program_behind_the_port) {
  other_program http(io_, port_.number(), "HTTP/1.1 400 Bad Request\r\n\r\n", true);
  met& one = join(place(1, 2));
  run_until([&] { return one.done; });
  EXPECT_TRUE(
      is(one.failure, errc::not_tandem,
         {port_.text() + " answers but is no Tandem store", "got 'HTTP/1.1 400 Bad Request"}));
}

TEST_F(store_test, another_version_behind_the_port) {
  other_program newer(io_, port_.number(), wire::encode_opening(7), true);
  met& one = join(place(1, 2));
  run_until([&] { return one.done; });
  EXPECT_TRUE(is(one.failure, errc::version_mismatch, {"version 7", "version 1", port_.text()}));
}

TEST_F(store_test, a_program_that_says_nothing_or_closes_at_once) {
  const std::vector<std::pair<bool, std::string>> cases{
      {false, "accepts connections but says nothing"}, {true, "closes connections without a word"}};
  for (const auto& [closes, says] : cases) {
    other_program quiet(io_, port_.number(), "", closes);
    met& one = join(place(1, 2), milliseconds(300));
    run_until([&] { return one.done; });
    EXPECT_TRUE(is(one.failure, errc::not_tandem, {port_.text(), says, "0.3 s"}));
  }
}

TEST_F(store_test, nonsense_behind_a_right_opening) {
  other_program liar(io_, port_.number(), wire::encode_opening() + std::string("\1\0\0\0\x7f", 5),
                     false);
  met& one = join(place(1, 2));
  run_until([&] { return one.done; });
  EXPECT_TRUE(is(one.failure, errc::protocol_violation, {port_.text()}));
}

TEST_F(store_test, hostile_bytes_harm_nobody) {
  const std::vector<std::string> attacks{
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      std::string(100'000, '\0'),
      wire::encode_opening(2) + "more",
      wire::encode_opening() + std::string("\xff\xff\xff\xff", 4),
      wire::encode_opening() + std::string("\x01\x08\0\0", 4) + std::string(3000, 'x'),
      wire::encode_opening() + std::string("\2\0\0\0\x01x", 6),
      wire::encode_opening() + wire::encode(wire::store_request(wire::get_request{1, 1, {"k"}})),
      wire::encode_opening() + wire::encode(wire::store_request(wire::leave_request{}))};
  met& zero = join(place(0, 2));
  settle();
  std::deque<tcp::socket> attackers;
  int ended = 0;
  std::array<char, 256> answer{};
  for (const std::string& bytes : attacks) {
    tcp::socket& s = attackers.emplace_back(io_);
    s.connect({asio::ip::address_v4::loopback(), port_.number()});
    tandem::error_code ignored;
    s.non_blocking(true);
    s.write_some(asio::buffer(bytes), ignored);
    // A greeting may come first; then the end.
    asio::async_read(s, asio::buffer(answer),
                     [&ended](tandem::error_code, std::size_t) { ++ended; });
  }
  run_until([&] { return ended == static_cast<int>(attacks.size()); });
  EXPECT_FALSE(zero.done);
  met& one = join(place(1, 2));
  run_until([&] { return zero.done && one.done; });
  ASSERT_TRUE(zero.value && one.value);
  const auto n = finish((*one.value)->add("n", 2));
  EXPECT_EQ(n.value, 2);
}

// --- keys

TEST_F(store_test, values_go_from_rank_to_rank) {
  const auto ranks = all(3);
  outcome<std::vector<std::string>> got;
  start(io_, ranks[2]->get({"b", "a"}, patience), got);
  EXPECT_FALSE(finish(ranks[0]->set("a", "A")).failure);
  EXPECT_FALSE(got.done);
  const std::string large(500'000, 'x');
  EXPECT_FALSE(finish(ranks[1]->set("b", large)).failure);
  run_until([&] { return got.done; });
  ASSERT_TRUE(got.value);
  EXPECT_EQ(*got.value, (std::vector<std::string>{large, "A"}));
}

TEST_F(store_test, many_requests_at_once) {
  const auto ranks = all(3);
  std::deque<outcome<std::vector<std::string>>> reads;
  std::deque<outcome<nothing>> writes;
  std::deque<outcome<std::int64_t>> counts;
  for (int i = 0; i < 200; ++i) {
    const std::size_t from = static_cast<std::size_t>(i) % 3;
    start(io_, ranks[from]->get({"k" + std::to_string(i)}, patience), reads.emplace_back());
    start(io_, ranks[(from + 1) % 3]->set("k" + std::to_string(i), std::to_string(i)),
          writes.emplace_back());
    start(io_, ranks[from]->add("n", i), counts.emplace_back());
  }
  run_until([&] {
    for (int i = 0; i < 200; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (!reads[at].done || !writes[at].done || !counts[at].done) return false;
    }
    return true;
  });
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(reads[static_cast<std::size_t>(i)].value,
              std::vector<std::string>{std::to_string(i)});
  }
  EXPECT_EQ(finish(ranks[0]->add("n", 0)).value, 199 * 200 / 2);
}

TEST_F(store_test, a_read_past_its_deadline_names_its_keys) {
  const auto ranks = all(2);
  finish(ranks[0]->set("here", "x"));
  const auto got = finish(ranks[1]->get({"here", "never", "nor this"}, milliseconds(50)));
  EXPECT_TRUE(
      is(got.failure, errc::timed_out, {"keys 'never', 'nor this' never came", "within 0.05 s"}));
  EXPECT_EQ(got.failure->context().rank, 1);
  EXPECT_EQ(finish(ranks[1]->get({"here"}, milliseconds(0))).value, std::vector<std::string>{"x"});
}

TEST_F(store_test, too_large_a_value_is_refused_and_nothing_else_breaks) {
  const auto ranks = all(2);
  const auto large = finish(ranks[1]->set("k", std::string(2'000'000, 'x')));
  EXPECT_TRUE(is(large.failure, errc::limit_exceeded, {"'k'", "1048576"}));
  EXPECT_FALSE(finish(ranks[1]->set("k", "small")).failure);
}

TEST_F(store_test, a_cancelled_read_ends_and_the_store_goes_on) {
  const auto ranks = all(2);
  asio::cancellation_signal signal;
  outcome<nothing> got;
  asio::co_spawn(
      io_, ranks[1]->get({"never"}, patience),
      asio::bind_cancellation_slot(
          signal.slot(), [&got](std::exception_ptr e, std::vector<std::string>) { got.end(e); }));
  finish(ranks[1]->set("a", "x"));
  EXPECT_FALSE(got.done);
  signal.emit(asio::cancellation_type::terminal);
  run_until([&] { return got.done; });
  EXPECT_FALSE(got.other.empty());
  EXPECT_FALSE(finish(ranks[0]->set("never", "late")).failure);
  EXPECT_EQ(finish(ranks[1]->get({"never"}, patience)).value, std::vector<std::string>{"late"});
}

// --- losses, reports, goodbyes

TEST_F(store_test, a_rank_that_vanishes_is_told_to_all_others_alike) {
  for (const std::size_t victim : {std::size_t{2}, std::size_t{0}}) {
    auto ranks = all(4);
    std::vector<heard> each(4);
    for (std::size_t rank = 0; rank < 4; ++rank) listen(*ranks[rank], each[rank]);
    outcome<std::vector<std::string>> waiting;
    start(io_, ranks[3]->get({"never"}, patience), waiting);
    settle();
    ranks[victim].reset();
    const std::string named = "rank " + std::to_string(victim) + " is gone";
    std::optional<error> first;
    run_until([&] {
      for (std::size_t rank = 0; rank < 4; ++rank) {
        if (rank != victim && each[rank].times == 0) return false;
      }
      return waiting.done;
    });
    EXPECT_EQ(each[victim].times, 0);
    EXPECT_TRUE(is(waiting.failure, errc::peer_lost, {named}));
    for (std::size_t rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      EXPECT_TRUE(is(each[rank].reason, errc::peer_lost, {named}));
      EXPECT_EQ(each[rank].reason->context().peer, static_cast<int>(victim));
      if (!first) first = each[rank].reason;
      EXPECT_STREQ(each[rank].reason->what(), first->what());
    }
    // Another end after the first is no news, and requests fail with the first.
    const std::size_t next = victim == 2 ? 1 : 2;
    ranks[next].reset();
    const auto after = finish(ranks[3]->add("n", 1));
    EXPECT_TRUE(is(after.failure, errc::peer_lost, {named}));
    EXPECT_EQ(each[3].times, 1);
  }
}

TEST_F(store_test, a_notice_waits_for_its_handler) {
  auto ranks = all(3);
  ranks[1].reset();
  const auto failed = finish(ranks[2]->get({"never"}, patience));
  EXPECT_TRUE(is(failed.failure, errc::peer_lost, {"rank 1 is gone"}));
  heard late;
  listen(*ranks[2], late);
  EXPECT_EQ(late.times, 0);
  run_until([&] { return late.times > 0; });
  heard later;
  listen(*ranks[2], later);
  settle();
  EXPECT_EQ(late.times, 1);
  EXPECT_EQ(later.times, 0);
}

TEST_F(store_test, the_first_report_reaches_every_rank) {
  for (const std::size_t reporter : {std::size_t{1}, std::size_t{0}}) {
    auto ranks = all(3);
    std::vector<heard> each(3);
    for (std::size_t rank = 0; rank < 3; ++rank) listen(*ranks[rank], each[rank]);
    tandem::error_context c;
    c.peer = 2;
    c.detail = "rank 2 fell silent";
    ranks[reporter]->report(error(make_error_code(errc::timed_out), c));
    // As a process that ends right after it has reported.
    ranks[reporter].reset();
    run_until([&] { return each[2].times > 0 && each[1 - reporter].times > 0; });
    for (const std::size_t rank : {std::size_t{2}, 1 - reporter}) {
      EXPECT_TRUE(is(each[rank].reason, errc::timed_out, {"rank 2 fell silent"}));
      EXPECT_EQ(each[rank].reason->context().peer, 2);
      EXPECT_EQ(each[rank].reason->context().rank, static_cast<int>(reporter));
    }
    ranks.clear();
    settle();
    EXPECT_EQ(each[2].times, 1);
  }
}

TEST_F(store_test, leaving_is_no_loss) {
  auto ranks = all(4);
  std::vector<heard> each(4);
  for (std::size_t rank = 0; rank < 4; ++rank) listen(*ranks[rank], each[rank]);
  ranks[2]->leave();
  ranks[2].reset();
  // Rank 0 says goodbye and its process ends at once, while a request is under way.
  outcome<std::vector<std::string>> waiting;
  start(io_, ranks[3]->get({"never"}, patience), waiting);
  settle();
  ranks[0]->leave();
  EXPECT_FALSE(finish(ranks[1]->set("k", "still served")).failure);
  ranks[0].reset();
  run_until([&] { return waiting.done; });
  EXPECT_TRUE(is(waiting.failure, errc::peer_closed, {"rank 0 has left"}));
  const auto later = finish(ranks[1]->add("n", 1));
  EXPECT_TRUE(is(later.failure, errc::peer_closed, {"rank 0 has left"}));
  for (const heard& one : each) EXPECT_EQ(one.times, 0) << one.reason->what();
  const auto after = finish(ranks[3]->add("n", 1));
  EXPECT_TRUE(after.failure);
}

TEST_F(store_test, requests_after_leaving_fail) {
  auto ranks = all(2);
  ranks[1]->leave();
  ranks[1]->leave();
  EXPECT_TRUE(is(finish(ranks[1]->add("n", 1)).failure, errc::channel_closed, {"has left"}));
  ranks[0]->leave();
  io_.restart();
  io_.run();
}

// --- destruction

TEST_F(store_test, a_destroyed_store_ends_what_waits_in_it) {
  auto ranks = all(2);
  std::deque<outcome<std::vector<std::string>>> waiting(2);
  start(io_, ranks[1]->get({"never"}, patience), waiting[0]);
  start(io_, ranks[0]->get({"never"}, patience), waiting[1]);
  settle();
  ranks.clear();
  run_until([&] { return waiting[0].done && waiting[1].done; });
  EXPECT_TRUE(is(waiting[0].failure, errc::channel_closed, {"destroyed"}));
  EXPECT_TRUE(is(waiting[1].failure, errc::channel_closed, {"destroyed"}));
  io_.restart();
  io_.run();
}

TEST_F(store_test, a_handler_may_destroy_its_store) {
  auto ranks = all(3);
  bool gone = false;
  ranks[2]->on_lost([&](const error&) {
    ranks[2].reset();
    gone = true;
  });
  ranks[1].reset();
  run_until([&] { return gone; });
  EXPECT_EQ(ranks[2], nullptr);
}

TEST(store_destruction, an_io_context_may_go_first) {
  // After every number of steps up to a met pair with reads that wait. The sanitizers see a leak or
  // a use after free.
  asio::io_context ports;
  tandem::settings options;
  int ended_meets = 0;
  for (int steps = 0; ended_meets < 2; ++steps) {
    ASSERT_LT(steps, 1000) << "two ranks never met";
    ended_meets = 0;
    auto io = std::make_unique<asio::io_context>();
    reserved_port port(ports);
    for (int rank = 0; rank < 2; ++rank) {
      tandem::launch_info who;
      who.rank = rank;
      who.size = 2;
      who.address = "127.0.0.1";
      who.port = port.number();
      asio::co_spawn(*io, tandem::store::meet(who, options),
                     [&ended_meets, &io](std::exception_ptr e, std::shared_ptr<tandem::store> s) {
                       ++ended_meets;
                       ASSERT_FALSE(e) << tandem::describe(e);
                       asio::co_spawn(*io, s->get({"never"}, patience),
                                      [s](std::exception_ptr, std::vector<std::string>) {});
                     });
    }
    for (int i = 0; i < steps; ++i) io->run_one_for(milliseconds(50));
    io.reset();
  }
}

// --- processes

/// A rank in a process of its own: writes what it hears to `report_fd`, and ends.
[[noreturn]] void be_rank(tandem::launch_info who, int report_fd) {
  asio::io_context io;
  std::shared_ptr<tandem::store> mine;
  const auto say = [report_fd](const std::string& text) {
    const ssize_t written = ::write(report_fd, text.data(), text.size());
    ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  };
  asio::co_spawn(io, tandem::store::meet(who, tandem::settings{}),
                 [&](std::exception_ptr e, std::shared_ptr<tandem::store> s) {
                   if (e) say(tandem::describe(e));
                   mine = std::move(s);
                   mine->on_lost([&say](const error& reason) { say(reason.what()); });
                 });
  io.run();
  ::_exit(2);
}

class killed : public store_test, public testing::WithParamInterface<int> {};

TEST_P(killed, every_other_process_hears_the_same_cause) {
  const int victim = GetParam();
  std::array<pid_t, 3> children{};
  std::array<int, 3> pipes{};
  for (int rank = 0; rank < 3; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    children[at] = ::fork();
    ASSERT_GE(children[at], 0);
    if (children[at] == 0) be_rank(place(rank, 4), ends[1]);
    ::close(ends[1]);
    pipes[at] = ends[0];
  }
  met& here = join(place(3, 4));
  run_until([&] { return here.done; });
  heard mine;
  if (here.value) listen(**here.value, mine);
  const auto begin = std::chrono::steady_clock::now();
  ::kill(children[static_cast<std::size_t>(victim)], SIGKILL);
  if (here.value) run_until([&] { return mine.times > 0; });
  // Generous: the promise is milliseconds, the machine may be busy.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  for (std::size_t rank = 0; rank < 3; ++rank) {
    std::array<char, 1024> text{};
    pollfd wait{pipes[rank], POLLIN, 0};
    if (::poll(&wait, 1, 20'000) <= 0) ::kill(children[rank], SIGKILL);
    const ssize_t n = ::read(pipes[rank], text.data(), text.size());
    ::close(pipes[rank]);
    int status = 0;
    ::waitpid(children[rank], &status, 0);
    if (static_cast<int>(rank) == victim) {
      EXPECT_TRUE(WIFSIGNALED(status));
      EXPECT_EQ(n, 0);
    } else {
      ASSERT_GT(n, 0) << "rank " << rank << " heard nothing";
      EXPECT_EQ(std::string(text.data(), static_cast<std::size_t>(n)),
                mine.reason ? mine.reason->what() : "");
    }
  }
  ASSERT_TRUE(here.value);
  EXPECT_TRUE(is(mine.reason, errc::peer_lost, {"rank " + std::to_string(victim) + " is gone"}));
}

INSTANTIATE_TEST_SUITE_P(store, killed, testing::Values(0, 1));

}  // namespace
