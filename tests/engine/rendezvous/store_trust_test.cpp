#include <sys/resource.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fstream>
#include <functional>
#include <tandem/log.hpp>

#include "rendezvous/store_protocol.hpp"
#include "security/credentials.hpp"
#include "security/tls_session.hpp"
#include "store_fixture.hpp"
#include "support/authority.hpp"
#include "support/expected_log.hpp"

namespace {

using namespace store_testing;
using tandem::secret;
using tandem::trust::credentials;
using tandem::trust::tls_session;
namespace wire = tandem::rendezvous;

const secret ours(std::string_view("the secret of this job"));
const secret another(std::string_view("the secret of another job"));

class store_trust_test : public store_job {
 protected:
  store_trust_test() {
    secret_ = ours;
    old_sink_ = tandem::set_log_sink(
        [this](const tandem::log_record& r) { logged_ += std::string(r.text) + "\n"; });
  }
  ~store_trust_test() override { tandem::set_log_sink(std::move(old_sink_)); }

  tandem::settings with(const secret& s) const {
    tandem::settings options = within(timeout);
    options.job_secret = s;
    return options;
  }
  bool has_logged(const std::string& words) const {
    return logged_.find(words) != std::string::npos;
  }
  std::ptrdiff_t lines() const { return std::count(logged_.begin(), logged_.end(), '\n'); }

  join_result& refused(const tandem::launch_info& who, const tandem::settings& options) {
    join_result& one = join(who, options);
    run_until([&] { return one.done; });
    EXPECT_FALSE(one.value);
    return one;
  }

  /// The refused connection does not disturb ranks that joined before.
  void expect_job_of_two(join_result& zero) {
    EXPECT_FALSE(zero.done);
    join_result& one = join(launch_as(1, 2));
    run_until([&] { return zero.done && one.done; });
    ASSERT_TRUE(zero.value && one.value) << (one.failure ? one.failure->what() : one.other);
    EXPECT_EQ(finish((*one.value)->add("n", 2)).value, 2);
    EXPECT_EQ((*one.value)->data_key().bytes().size(), 32u);
  }

  tcp::socket unauthenticated() {
    tcp::socket s(io_);
    s.connect({asio::ip::address_v4::loopback(), port_.number()});
    return s;
  }

  std::string logged_;

 private:
  tandem::log_sink old_sink_;
};

/// All bytes until the other side closes.
struct listening {
  explicit listening(tcp::socket& to) : from(to) { read(); }
  void read() {
    from.async_read_some(asio::buffer(chunk), [this](tandem::error_code failed, std::size_t n) {
      received.append(chunk.data(), n);
      ended = static_cast<bool>(failed);
      if (!ended) read();
    });
  }
  tcp::socket& from;
  std::array<char, 4096> chunk{};
  std::string received;
  bool ended = false;
};

/// Impersonates rank 0 and relays bytes, unchanged or modified by `change`.
class man_in_the_middle {
 public:
  man_in_the_middle(asio::io_context& io, std::uint16_t port) : io_(io), to_port_(port) {
    accept();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  std::string up, down;  ///< relayed bytes

 private:
  void accept() {
    acceptor_.async_accept([this](tandem::error_code failed, tcp::socket s) {
      if (failed) return;
      tcp::socket& client = sockets_.emplace_back(std::move(s));
      tcp::socket& server = sockets_.emplace_back(io_);
      server.connect({asio::ip::address_v4::loopback(), to_port_});
      pass(client, server, up);
      pass(server, client, down);
      accept();
    });
  }
  void pass(tcp::socket& from, tcp::socket& to, std::string& all) {
    std::array<char, 4096>& chunk = chunks_.emplace_back();
    from.async_read_some(asio::buffer(chunk), [&, this](tandem::error_code failed, std::size_t n) {
      tandem::error_code ignored;
      all.append(chunk.data(), n);
      asio::write(to, asio::buffer(chunk, n), ignored);
      if (failed) {
        to.shutdown(tcp::socket::shutdown_send, ignored);
      } else {
        pass(from, to, all);
      }
    });
  }

  asio::io_context& io_;
  std::uint16_t to_port_;
  tcp::acceptor acceptor_{io_, {asio::ip::address_v4::loopback(), 0}};
  std::deque<tcp::socket> sockets_;
  std::deque<std::array<char, 4096>> chunks_;
};

TEST_F(store_trust_test, each_incarnation_has_its_own_data_key) {
  auto first = all(3);
  const std::string key(first[0]->data_key().text());
  EXPECT_EQ(key.size(), 32u);
  for (const auto& rank : first) EXPECT_EQ(rank->data_key().text(), key);
  for (const auto& rank : first) rank->leave();
  first.clear();
  io_.restart();
  io_.run();
  EXPECT_NE(all(2)[1]->data_key().text(), key);
  secret_ = {};
}

TEST_F(store_trust_test, no_data_key_without_trust) {
  secret_ = {};
  const auto ranks = all(2);
  EXPECT_TRUE(ranks[0]->data_key().empty());
  EXPECT_TRUE(ranks[1]->data_key().empty());
}

TEST_F(store_trust_test, authenticates_by_certificates) {
  const tandem::test::temporary_folder folder;
  const tandem::test::authority good("ours"), bad("others");
  join_result& zero = join(launch_as(0, 2), good.certify(folder, "rank0", good));
  run_ready();
  tandem::settings strange = bad.certify(folder, "other", bad);
  std::ofstream(strange.authorities_file, std::ios::app)
      << std::ifstream(good.certify(folder, "good", good).authorities_file).rdbuf();
  join_result& unauthenticated = refused(launch_as(1, 2), strange);
  EXPECT_TRUE(
      is(unauthenticated.failure, errc::not_trusted, {port_.text(), "mutual authentication"}));
  EXPECT_TRUE(is(unauthenticated.failure, errc::not_trusted, {"signed this rank's certificate"}));
  EXPECT_TRUE(has_logged("its certificate 'other' (issued by 'others'"));
  join_result& one = join(launch_as(1, 2), good.certify(folder, "rank1", good));
  run_until([&] { return zero.done && one.done; });
  ASSERT_TRUE(zero.value && one.value) << (one.failure ? one.failure->what() : one.other);
  EXPECT_EQ((*one.value)->data_key().text(), (*zero.value)->data_key().text());
  EXPECT_FALSE((*one.value)->data_key().empty());
}

TEST_F(store_trust_test, wrong_secret_is_reported_and_disturbs_nobody) {
  join_result& zero = join(launch_as(0, 2));
  run_ready();
  join_result& wrong = refused(launch_as(1, 2), with(another));
  EXPECT_TRUE(is(wrong.failure, errc::not_trusted,
                 {port_.text(), "job secret mismatch", "rank 1", "TANDEM_SECRET_FILE"}));
  EXPECT_TRUE(has_logged("job secret mismatch"));
  expect_job_of_two(zero);
}

TEST_F(store_trust_test, secret_with_other_job_id_is_refused) {
  join_result& zero = join(launch_as(0, 2));
  run_ready();
  tandem::launch_info who = launch_as(1, 2);
  who.job = "another";
  join_result& wrong = refused(who, with(ours));
  EXPECT_TRUE(is(wrong.failure, errc::not_trusted, {port_.text(), "it belongs to another job"}));
  EXPECT_TRUE(has_logged("it belongs to another job"));
  expect_job_of_two(zero);
}

TEST_F(store_trust_test, rank_without_secret_is_refused) {
  join_result& zero = join(launch_as(0, 2));
  run_ready();
  join_result& keyless = refused(launch_as(1, 2), with({}));
  EXPECT_TRUE(is(keyless.failure, errc::not_trusted,
                 {"rank 0's store has a secret, this rank has none", "TANDEM_SECRET_FILE"}));
  EXPECT_TRUE(has_logged("it has no secret, and rank 0 has one"));
  expect_job_of_two(zero);
}

TEST_F(store_trust_test, rank_0_without_secret_is_refused) {
  secret_ = {};
  join_result& zero = join(launch_as(0, 2));
  run_ready();
  join_result& keyed = refused(launch_as(1, 2), with(ours));
  EXPECT_TRUE(is(keyed.failure, errc::not_trusted,
                 {port_.text() + " has no secret, this rank has one", "TANDEM_SECRET_FILE"}));
  EXPECT_TRUE(has_logged("it has a secret, and rank 0 has none"));
  join_result& one = join(launch_as(1, 2));
  run_until([&] { return zero.done && one.done; });
  EXPECT_TRUE(zero.value && one.value);
}

TEST_F(store_trust_test, relayed_bytes_are_opaque_and_not_replayable) {
  join_result& zero = join(launch_as(0, 2));
  run_ready();
  man_in_the_middle relay(io_, port_.number());
  tandem::launch_info who = launch_as(1, 2);
  who.port = relay.port();
  join_result& one = join(who);
  run_until([&] { return zero.done && one.done; });
  ASSERT_TRUE(zero.value && one.value);
  EXPECT_FALSE(finish((*one.value)->set("key", "the payload of a value")).failure);
  const std::string key((*one.value)->data_key().text());
  for (const std::string* passed : {&relay.up, &relay.down}) {
    EXPECT_GT(passed->size(), 200u);
    EXPECT_EQ(passed->find("the payload"), std::string::npos);
    EXPECT_EQ(passed->find(key), std::string::npos);
  }
  tcp::socket again = unauthenticated();
  asio::write(again, asio::buffer(relay.up));
  listening answer(again);
  run_until([&] { return answer.ended; });
  EXPECT_TRUE(has_logged("dropped the connection from"));
  EXPECT_EQ(finish((*one.value)->add("n", 2)).value, 2);
}

/// Only a man in the middle listens: with a different secret, or replaying bytes of a real rank 0.
TEST_F(store_trust_test, impostor_of_rank_0_is_refused) {
  join_result& imposter = join(launch_as(0, 2), with(another));
  run_ready();
  join_result& one = refused(launch_as(1, 2), with(ours));
  EXPECT_TRUE(is(one.failure, errc::not_trusted, {port_.text(), "job secret mismatch"}));
  EXPECT_FALSE(imposter.done);
}

TEST_F(store_trust_test, other_programs_are_named) {
  join_result& zero = join(launch_as(0, 2));
  run_ready();
  tcp::socket http = unauthenticated();
  asio::write(http, asio::buffer(std::string("GET / HTTP/1.1\r\n")));
  listening answer(http);
  run_until([&] { return answer.ended; });
  EXPECT_TRUE(has_logged("it is not a Tandem rank (sent 'GET / HTTP/1.1"));
  EXPECT_EQ(answer.received, "");
  expect_job_of_two(zero);
}

TEST_F(store_trust_test, hostile_bytes_in_a_crowd_are_logged_once) {
  tandem::test::expect_log("more of this kind");
  join_result& zero = join(launch_as(0, 2));
  run_ready();
  std::deque<tcp::socket> scanners;
  std::deque<listening> answers;
  for (int i = 0; i < 100; ++i) {
    scanners.push_back(unauthenticated());
    const std::string bytes = i % 2 == 0 ? "\x16\x03\x01" + std::string(500, 'x') : "SSH-2.0-x\r\n";
    asio::write(scanners.back(), asio::buffer(bytes));
    answers.emplace_back(scanners.back());
  }
  run_until([&] {
    return std::all_of(answers.begin(), answers.end(), [](const auto& a) { return a.ended; });
  });
  EXPECT_LE(lines(), 3);
  expect_job_of_two(zero);
}

TEST_F(store_trust_test, silent_connections_do_not_block_the_job) {
  tandem::test::expect_log("more of this kind");
  constexpr int crowd = 1'000;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < crowd + 200) {
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, crowd + 200);
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  if (files.rlim_cur < crowd + 200) GTEST_SKIP() << "needs 1,200 open files: see ulimit -n";
  join_result& zero = join(launch_as(0, 2));
  run_ready();
  std::deque<tcp::socket> silent;
  for (int i = 0; i < crowd; ++i) {
    silent.push_back(unauthenticated());
    if (i % 50 == 0) run_ready();
  }
  expect_job_of_two(zero);
  EXPECT_EQ(lines(), 1);
  EXPECT_TRUE(has_logged("64 connections have not identified themselves"));
}

/// A valid handshake at one byte per second: too slow.
TEST_F(store_trust_test, handshake_times_out_after_five_seconds) {
  join_result& zero = join(launch_as(0, 2));
  run_ready();
  std::string hello =
      tls_session(credentials::by_secret(ours, "job"), tls_session::side::connects).take_outgoing();
  const auto begun = std::chrono::steady_clock::now();
  tcp::socket slow = unauthenticated();
  listening answer(slow);
  asio::steady_timer each(io_);
  std::size_t sent_bytes = 0;
  std::function<void()> send_byte = [&] {
    tandem::error_code ignored;
    asio::write(slow, asio::buffer(hello.data() + sent_bytes++, 1), ignored);
    each.expires_after(std::chrono::seconds(1));
    each.async_wait([&](tandem::error_code failed) {
      if (!failed && !answer.ended) send_byte();
    });
  };
  send_byte();
  run_until([&] { return answer.ended; });
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
  EXPECT_LT(sent_bytes, 10u);
  EXPECT_EQ(answer.received, "");
  EXPECT_TRUE(has_logged("handshake timeout: not identified within 5 s"));
  expect_job_of_two(zero);
}

TEST_F(store_trust_test, secret_allows_non_loopback_addresses) {
  tandem::launch_info who = launch_as(0, 2);
  who.address = "192.0.2.77";  // TEST-NET-1: never assigned
  tandem::settings options = within(milliseconds(300));
  EXPECT_TRUE(
      is(refused(who, options).failure, errc::bad_input, {"rank 0 cannot listen on 192.0.2.77"}));
  options.job_secret = {};
  EXPECT_TRUE(is(refused(who, options).failure, errc::bad_input,
                 {"without a secret", "TANDEM_SECRET_FILE"}));
}

TEST_F(store_trust_test, unusable_secret_file_fails_the_rendezvous) {
  const tandem::test::temporary_folder folder;
  tandem::settings options;
  options.secret_file = folder.file("secret", "0123456789abcdef", 0644);
  const auto s = finish(tandem::store::meet(launch_as(1, 2), options));
  EXPECT_TRUE(is(s.failure, errc::bad_input, {"its mode is 0644", "chmod 600", "rank 1"}));
  EXPECT_EQ(s.failure->context().rank, 1);
}

}  // namespace
