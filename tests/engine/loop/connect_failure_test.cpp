#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <regex>
#include <string>
#include <system_error>
#include <tandem/detail/connect_failure.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/error.hpp>
#include <tandem/tandem.hpp>

#include "support/attempts.hpp"
#include "support/expected_log.hpp"

namespace {

using namespace std::chrono_literals;
using tandem::error_code;
using tandem::detail::connect_tries;
using tandem::detail::to_text;
namespace asio = boost::asio;
using endpoint = asio::ip::tcp::endpoint;

TEST(duration_text, is_rounded) {
  EXPECT_EQ(to_text(999'951us), "1 s");
  EXPECT_EQ(to_text(5'999'510us), "6 s");
  EXPECT_EQ(to_text(30s), "30 s");
  EXPECT_EQ(to_text(250ms), "0.25 s");
  EXPECT_EQ(to_text(1'500ms), "1.5 s");
  EXPECT_EQ(to_text(20ms), "0.02 s");
  EXPECT_EQ(to_text(1ms), "0.001 s");
  EXPECT_EQ(to_text(1ns), "less than 0.001 s");
  EXPECT_EQ(to_text(0s), "0 s");
  EXPECT_EQ(to_text(999'700ms), "1000 s");
  EXPECT_EQ(to_text(12h), "43200 s");
}

TEST(connect_failure, names_cause_and_advice) {
  const endpoint to(asio::ip::make_address("10.0.0.2"), 29500);
  const endpoint v6(asio::ip::make_address("2001:db8::2"), 29500);
  struct {
    error_code why;
    const char* text;
    const char* advice;
  } const cases[]{
      {asio::error::connection_refused,
       "10.0.0.2:29500: connection refused (nothing listens there)", "is rank 0 running"},
      {asio::error::timed_out, "10.0.0.2:29500: no answer within 3 s",
       "a firewall that drops packets between rank 1 and rank 0 is the likely cause: allow TCP "
       "port 29500"},
      {tandem::make_error_code(tandem::errc::timed_out), "no answer within 3 s", "firewall"},
      {asio::error::host_unreachable, "No route to host", "ip route get 10.0.0.2"},
      {asio::error::network_unreachable, "Network is unreachable", "ip route get 10.0.0.2"},
      {error_code(EADDRNOTAVAIL, boost::system::system_category()),
       "ephemeral ports exhausted: ", "sysctl -w net.ipv4.ip_local_port_range="},
      {error_code(EPERM, boost::system::system_category()), "this host forbids it", "is rank 0"},
  };
  for (const auto& c : cases) {
    connect_tries tries;
    tries.failed(to, c.why, 2'999'951us);
    EXPECT_NE(tries.text().find(c.text), std::string::npos) << tries.text();
    const std::string advice = tries.advice("rank 1", "rank 0", "is rank 0 running?");
    EXPECT_NE(advice.find(c.advice), std::string::npos) << advice;
  }
  connect_tries both;
  both.failed(to, asio::error::timed_out, 1s);
  both.failed(to, asio::error::connection_refused, 1s);
  both.failed(v6, asio::error::host_unreachable, 1s);
  EXPECT_EQ(both.text(),
            "10.0.0.2:29500: connection refused (nothing listens there), [2001:db8::2]:29500: No "
            "route to host");
}

/// Asio's exception for a refused connection: its text names a source file of Boost.
boost::system::system_error thrown_by_asio() {
  asio::io_context io;
  asio::ip::tcp::acceptor taken(io, endpoint(asio::ip::address_v4::loopback(), 0));
  const endpoint closed = taken.local_endpoint();
  taken.close();
  asio::ip::tcp::socket socket(io);
  try {
    socket.connect(closed);
  } catch (const boost::system::system_error& e) {
    return e;
  }
  return boost::system::system_error(error_code());
}

TEST(connect_failure, texts_name_no_source_file_of_a_dependency) {
  const boost::system::system_error raw = thrown_by_asio();
  const std::string text = tandem::describe(raw);
  EXPECT_NE(text.find("Connection refused"), std::string::npos) << text;
  EXPECT_FALSE(std::regex_search(text, std::regex("boost/|\\.hpp|system:|\\["))) << text;
  EXPECT_EQ(text, tandem::describe(std::make_exception_ptr(raw)));
  EXPECT_EQ(tandem::describe(std::runtime_error("plain")), "plain");
  const tandem::error ours(tandem::errc::peer_lost, "it is gone", "see its output");
  EXPECT_EQ(tandem::describe(ours), ours.what());
  EXPECT_EQ(tandem::describe(boost::system::system_error(raw.code(), "reading")),
            "reading: Connection refused");
}

/// A listener whose backlog is full: Linux drops further connection requests, like a firewall.
class full_queue {
 public:
  explicit full_queue(asio::io_context& io) : acceptor_(io), waits_(io) {
    acceptor_.open(asio::ip::tcp::v4());
    acceptor_.bind({asio::ip::address_v4::loopback(), 0});
    acceptor_.listen(0);
    waits_.connect(acceptor_.local_endpoint());
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  asio::ip::tcp::acceptor acceptor_;
  asio::ip::tcp::socket waits_;
};

/// A port without a listener.
std::uint16_t closed_port(asio::io_context& io) {
  asio::ip::tcp::acceptor taken(io, endpoint(asio::ip::address_v4::loopback(), 0));
  return taken.local_endpoint().port();
}

enum class api { channel, store };

std::string failed_text(asio::io_context& io, api by, const std::string& host, std::uint16_t port) {
  tandem::settings options;
  options.meet_timeout = 350ms;
  options.insecure = true;
  tandem::launch_info who{
      .rank = 1, .size = 2, .address = host, .port = port, .job = {}, .launcher = {}};
  std::string text;
  const auto end = [&text](std::exception_ptr failure, const auto&) {
    text = tandem::describe(failure);
  };
  if (by == api::channel) {
    asio::co_spawn(io, tandem::tcp::connect(host, port, options), end);
  } else {
    asio::co_spawn(io, tandem::store::meet(who, options), end);
  }
  io.restart();
  io.run();
  return text;
}

TEST(connect_failure, every_reproducible_failure_is_explained) {
  tandem::test::expect_log("host 'no-such-host.invalid' has no address yet");
  asio::io_context io;
  const full_queue dropping(io);
  struct {
    const char* host;
    std::uint16_t port;
    const char* words;
  } const cases[]{
      {"127.0.0.1", closed_port(io), "connection refused (nothing listens there)"},
      {"127.0.0.1", dropping.port(), "a firewall that drops packets between "},
      {"127.0.0.1", dropping.port(), ": no answer within 0.35 s"},
      {"localhost", closed_port(io), "127.0.0.1:"},
      {"no-such-host.invalid", 7, "no-such-host.invalid"},
      {"255.255.255.255", 7, "255.255.255.255:7: "},
  };
  const std::regex never(
      "\\.[ch]pp|boost/|asio|\\[system|\\d\\.\\d{4,}|rank (\\d+), peer rank \\1\\b");
  for (const api by : {api::channel, api::store}) {
    for (const auto& c : cases) {
      std::string text;
      // It names the time that was left when it began.
      EXPECT_TRUE(tandem::test::succeeds_once([&] {
        text = failed_text(io, by, c.host, c.port);
        return text.find(c.words) != std::string::npos;
      })) << text;
      EXPECT_FALSE(std::regex_search(text, never)) << text;
      if (by == api::store) {
        EXPECT_NE(text.find("rank 1, peer rank 0"), std::string::npos) << text;
      }
    }
  }
}

TEST(connect_failure, self_connection_is_refused) {
  tandem::error_context c;
  c.rank = c.peer = 1;
  c.detail = "it broke";
  EXPECT_STREQ(tandem::error(tandem::make_error_code(tandem::errc::peer_lost), c).what(),
               "it broke (rank 1)");
}

}  // namespace
