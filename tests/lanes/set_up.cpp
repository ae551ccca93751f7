// Peers that stop or send invalid data during the setup of a lane: it fails in time, with a reason,
// and nothing stays open.

#include <net/if.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "doubles/rdma/on_loopback.hpp"
#include "support/verbs_rig.hpp"
#include "transports/rails/rdma_lanes.hpp"

namespace tandem::test {
namespace {

verbs::wire_qp_info good_info() {
  verbs::qp_info made;
  made.data_pair = 1;
  made.control_pair = 2;
  made.chunks_at = 4096;
  return verbs::encode(made);
}

struct setup_case {
  std::string name;
  std::string bytes;
  bool then_closes;
  errc code;
  std::string expected;
};

std::string text(const verbs::wire_qp_info& qp_info) {
  return {reinterpret_cast<const char*>(qp_info.data()), qp_info.size()};
}

std::vector<setup_case> setup_cases() {
  const std::string good = text(good_info());
  std::string other_version = good, damaged = good;
  other_version[8] = 9;
  damaged[40] ^= 1;
  const std::string late = "setting up RDMA on double0 port 1", ended = "during RDMA setup";
  using enum errc;
  return {
      {"nothing", "", false, timed_out, late},
      {"half_an_info", good.substr(0, 60), false, timed_out, late},
      {"an_info_and_silence", good, false, timed_out, late},
      {"nothing_and_closes", "", true, peer_closed, ended},
      {"half_an_info_and_closes", good.substr(0, 127), true, peer_closed, ended},
      {"an_info_and_closes", good, true, peer_closed, ended},
      {"no_info", std::string(128, 'x'), false, protocol_violation, "wrong magic number"},
      {"a_corrupt_info", damaged, false, protocol_violation, "checksum mismatch"},
      {"an_info_of_another_version", other_version, false, version_mismatch, "has version 9"},
      {"an_info_and_not_ready", good + "N", false, peer_closed, "not the ready byte"},
  };
}

awaitable<void> set_up(rails::rdma_lanes& lanes, asio::ip::tcp::socket over) {
  sealed::connection connection(std::move(over), {});
  std::unique_ptr<rails::lane_connection> made = co_await lanes.set_up(0, std::move(connection));
}

/// One rail, on loopback.
void find(rails::rdma_lanes& lanes) {
  const std::vector<rails::nic> nics = rails::find_nics();
  const auto lo = std::find_if(nics.begin(), nics.end(),
                               [](const rails::nic& one) { return one.name == "lo"; });
  require(lo != nics.end(), "a loopback interface");
  const rails::rail_end rail{static_cast<std::size_t>(lo - nics.begin()), lo->addresses};
  lanes.find(nics, {rail}, rdma_settings(rdma_use::on));
  require(lanes.has(0), "a device on it");
}

awaitable<void> run_case(setup_case by) {
  std::array<asio::ip::tcp::socket, 2> over = co_await connected_sockets();
  rails::rdma_lanes lanes;
  find(lanes);
  co_await asio::async_write(over[1], asio::buffer(by.bytes), asio::use_awaitable);
  if (by.then_closes) over[1].shutdown(asio::socket_base::shutdown_send);
  const auto failure = co_await failure_of(set_up(lanes, std::move(over[0])));
  expect_error(failure, by.code, {by.expected});
}

class set_up_test : public testing::TestWithParam<setup_case> {
 protected:
  std::unique_ptr<rdma_double> devices_ = rdma_on_loopback();
};

TEST_P(set_up_test, fails_with_a_reason) {
  run_test(run_case(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(verbs, set_up_test, testing::ValuesIn(setup_cases()),
                         [](const auto& which) { return which.param.name; });

}  // namespace
}  // namespace tandem::test
