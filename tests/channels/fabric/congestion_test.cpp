#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <boost/asio/io_context.hpp>
#include <tandem/error.hpp>

#include "fabric/tcp_connect.hpp"

namespace tandem::transport {
namespace {

using asio::ip::address_v4;

std::string control_of(asio::ip::tcp::socket& which) {
  char name[16] = {};
  socklen_t bytes = sizeof name;
  EXPECT_EQ(::getsockopt(which.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name, &bytes), 0);
  return name;
}

struct both_ends {
  asio::io_context context;
  asio::ip::tcp::socket near{context}, far{context};

  both_ends() {
    asio::ip::tcp::acceptor acceptor(context, {address_v4::loopback(), 0});
    near.connect(acceptor.local_endpoint());
    acceptor.accept(far);
  }
};

settings with(std::string_view words) {
  settings s;
  s.set("congestion", words);
  return s;
}

TEST(Congestion, IsNotPacedWithinAHost) {
  both_ends of;
  choose_congestion(of.near, with("auto"));
  choose_congestion(of.far, with("auto"));
  EXPECT_EQ(control_of(of.near), "reno");
  EXPECT_EQ(control_of(of.far), "reno");
}

TEST(Congestion, KeepsSystemDefaultOnRequest) {
  both_ends of;
  const std::string before = control_of(of.near);
  choose_congestion(of.near, with("system"));
  EXPECT_EQ(control_of(of.near), before);
}

TEST(Congestion, UsesNamedAlgorithm) {
  both_ends of;
  choose_congestion(of.near, with("reno"));
  EXPECT_EQ(control_of(of.near), "reno");
  EXPECT_NO_THROW(check_congestion(with("reno")));
}

TEST(Congestion, RefusesUnavailableAlgorithmListingAvailable) {
  try {
    check_congestion(with("carrier-pigeon"));
    FAIL() << "no error";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::bad_option);
    EXPECT_NE(std::string(e.what()).find("congestion=carrier-pigeon: rejected by the kernel"),
              std::string::npos);
    EXPECT_NE(e.context().advice.find("reno"), std::string::npos);
  }
  EXPECT_NO_THROW(check_congestion(with("auto")));
  EXPECT_NO_THROW(check_congestion(with("system")));
}

TEST(Congestion, IgnoresClosedSocket) {
  asio::io_context context;
  asio::ip::tcp::socket closed(context);
  EXPECT_NO_THROW(choose_congestion(closed, with("auto")));
}

}  // namespace
}  // namespace tandem::transport
