// Each verbs call fails in turn during setup or use of a lane: the end where it fails names the
// call and the device, the other end does not hang, and no object stays open.

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "lanes/raw_verbs.hpp"

namespace tandem::test {
namespace {

using call = rdma_double::call;

awaitable<std::shared_ptr<rdma_network>> make_network() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  co_return rdma_network::make(executor, 1, rdma_double::delivery::at_poll);
}

awaitable<void> establish_end(std::shared_ptr<rdma_network> on, sealed::side which,
                              asio::ip::tcp::socket over,
                              std::unique_ptr<rails::lane_connection>& made) {
  sealed::connection connection(std::move(over), {});
  made = co_await on->establish(std::move(connection), which, 0);
}

struct outcome {
  std::unique_ptr<rails::lane_connection> connections[2];
  std::optional<error> failures[2];
};

awaitable<void> watch(awaitable<void> work, std::optional<error>& into) {
  into = co_await failure_of(std::move(work));
}

/// Connects both ends; each has its own result.
awaitable<std::shared_ptr<outcome>> establish(std::shared_ptr<rdma_network> on) {
  const auto made = std::make_shared<outcome>();
  std::array<asio::ip::tcp::socket, 2> over = co_await connected_sockets();
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  using enum sealed::side;
  background first(executor,
                   watch(establish_end(on, connector, std::move(over[0]), made->connections[0]),
                         made->failures[0]));
  background second(executor,
                    watch(establish_end(on, listener, std::move(over[1]), made->connections[1]),
                          made->failures[1]));
  co_await first.result();
  co_await second.result();
  co_return made;
}

struct failing {
  std::string name;
  call which;
  int after;
  int error;
  std::string expected;
  errc code = errc::unreachable;
};

std::vector<failing> all_failing() {
  std::vector<failing> all{
      {"open", call::open_device, 0, EACCES, "ibv_open_device: Permission denied"},
      {"list", call::get_device_list, 0, ENOSYS, "ibv_get_device_list"},
      {"device", call::query_device, 0, EIO, "ibv_query_device"},
      {"port", call::query_port, 0, EIO, "ibv_query_port"},
      {"port_later", call::query_port, 1, EIO, "ibv_query_port"},
      {"gids", call::query_gid_table, 0, EIO, "ibv_query_gid_table"},
      {"domain", call::alloc_pd, 0, ENOMEM, "ibv_alloc_pd: Cannot allocate memory"},
      {"memory", call::reg_mr, 0, ENOMEM, "RLIMIT_MEMLOCK", errc::limit_exceeded},
      {"slots", call::reg_mr, 1, ENOMEM, "RLIMIT_MEMLOCK", errc::limit_exceeded},
      {"channel", call::create_comp_channel, 0, EMFILE, "ibv_create_comp_channel"},
      {"completions", call::create_cq, 0, EINVAL, "ibv_create_cq"},
      {"control_pair", call::create_qp, 1, ENOMEM, "ibv_create_qp"},
  };
  for (int i = 0; i < 12; ++i) {
    const std::string to = i < 4 ? "INIT" : i % 2 == 0 ? "RTR" : "RTS";
    all.push_back({"transition_" + std::to_string(i), call::modify_qp, i, EINVAL,
                   "ibv_modify_qp to " + to + ": Invalid argument"});
  }
  const verbs::queue_depths queue_depths = small_queues();
  for (const std::uint32_t i :
       {0u, queue_depths.records, 2 * (queue_depths.records + queue_depths.updates) - 1}) {
    all.push_back({"receive_" + std::to_string(i), call::post_recv, static_cast<int>(i), ENOMEM,
                   "ibv_post_recv: Cannot allocate memory"});
  }
  return all;
}

awaitable<void> fail_once(failing how) {
  const auto network = co_await make_network();
  network->devices().fail_next(how.which, how.error, how.after);
  const auto got = co_await establish(network);
  const bool first = got->failures[0] && got->failures[0]->code() != errc::peer_closed;
  const auto &failed_end = got->failures[first ? 0 : 1], &other = got->failures[first ? 1 : 0];
  expect_error(failed_end, how.code, {how.expected, "double"});
  if (failed_end) {
    EXPECT_NE(failed_end->context().advice, "");
  }
  if (other) expect_error(other, errc::peer_closed, {"during RDMA setup"});
}

void PrintTo(const failing& f, std::ostream* out) {
  *out << f.name;
}

class failing_calls : public testing::TestWithParam<failing> {};

TEST_P(failing_calls, are_reported_and_leak_nothing) {
  run_test(fail_once(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(verbs, failing_calls, testing::ValuesIn(all_failing()),
                         [](const auto& which) { return which.param.name; });

awaitable<void> no_inline() {
  const auto network = co_await make_network();
  network->devices().fail_next(call::create_qp, EINVAL);
  const auto got = co_await establish(network);
  EXPECT_TRUE(got->connections[0] && got->connections[1]);
}

awaitable<void> no_pair() {
  const auto network = co_await make_network();
  for (int i = 0; i < 2; ++i) network->devices().fail_next(call::create_qp, ENOMEM);
  const auto got = co_await establish(network);
  expect_error(got->failures[0], errc::unreachable, {"double0_0 port 1", "ibv_create_qp"});
  expect_error(got->failures[1], errc::peer_closed);
}

awaitable<void> port_down() {
  const auto network = co_await make_network();
  network->devices().drop_link("double1_0");
  const auto got = co_await establish(network);
  expect_error(got->failures[0], errc::peer_closed);
  expect_error(got->failures[1], errc::unreachable, {"double1_0 port 1", "not active", "cable"});
}

awaitable<void> gid_gone() {
  const auto network = co_await make_network();
  network->devices().change_gids("double0_0", {});
  const auto got = co_await establish(network);
  expect_error(got->failures[0], errc::unreachable, {"there is no GID 0"});
  expect_error(got->failures[1], errc::peer_closed);
}

TEST(verbs_establish, works_without_inline_where_a_device_rejects_it) {
  run_test(no_inline());
}
TEST(verbs_establish, reports_that_no_pair_can_be_made) {
  run_test(no_pair());
}
TEST(verbs_establish, reports_that_the_port_is_down) {
  run_test(port_down());
}
TEST(verbs_establish, reports_that_the_gid_is_gone) {
  run_test(gid_gone());
}

awaitable<void> establish_raw(asio::ip::tcp::socket over,
                              std::function<void(verbs::qp_info&)> corrupt) {
  co_await raw_verbs::establish(std::move(over), "double1_0", std::move(corrupt));
}

/// The TCP connection works, but no byte arrives over RDMA: there is no lane.
awaitable<void> wrong_qp_info(std::function<void(verbs::qp_info&)> corrupt, errc code,
                              std::string expected) {
  const auto network = co_await make_network();
  std::array<asio::ip::tcp::socket, 2> over = co_await connected_sockets();
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  background by_hand(executor, establish_raw(std::move(over[1]), std::move(corrupt)));
  std::unique_ptr<rails::lane_connection> made;
  const auto failure = co_await failure_of(
      establish_end(network, sealed::side::connector, std::move(over[0]), made));
  expect_error(failure, code, {expected});
  co_await by_hand.failure();
}

TEST(verbs_establish, makes_no_lane_of_unreachable_pairs) {
  const auto other_pair = [](verbs::qp_info& c) { c.data_pair += 1000; };
  const auto other_psn = [](verbs::qp_info& c) { c.control_psn += 1; };
  const auto nowhere = [](verbs::qp_info& c) { c.gid[15] ^= std::byte{0x40}; };
  run_test(wrong_qp_info(other_pair, errc::unreachable, "retries exceeded"));
  run_test(wrong_qp_info(nowhere, errc::unreachable, "the RDMA path carries no traffic"));
  run_test(wrong_qp_info(other_psn, errc::peer_closed, "during RDMA setup"));
}

awaitable<void> establish_and_keep(asio::ip::tcp::socket over,
                                   std::function<void(verbs::qp_info&)> corrupt,
                                   std::shared_ptr<raw_verbs>& peer) {
  peer = co_await raw_verbs::establish(std::move(over), "double1_0", std::move(corrupt));
}

/// Writes to the addresses in the peer's info fail at the peer's NIC, and this end reports it.
awaitable<void> wrong_slots(std::function<void(verbs::qp_info&)> corrupt) {
  const auto network = co_await make_network();
  std::array<asio::ip::tcp::socket, 2> over = co_await connected_sockets();
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::shared_ptr<raw_verbs> peer;
  background by_hand(executor, establish_and_keep(std::move(over[1]), std::move(corrupt), peer));
  std::unique_ptr<rails::lane_connection> made;
  co_await establish_end(network, sealed::side::connector, std::move(over[0]), made);
  co_await by_hand.result();
  const std::vector<std::byte> bytes = pattern(100'000, 1);
  const iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  while (made->send(std::span(&part, 1)) > 0) {
  }
  std::byte into[100];
  const iovec target{into, sizeof into};
  const ssize_t n = made->receive(std::span(&target, 1));
  EXPECT_EQ(n, -1);
  EXPECT_NE(made->describe(ECONNRESET).find("remote access error"), std::string::npos)
      << made->describe(ECONNRESET);
  EXPECT_EQ(peer->data.text_at(2048, 2048), std::string(2048, '.')) << "nothing was written";
}

TEST(verbs_lane, fails_for_wrong_slots_in_the_qp_info) {
  run_test(wrong_slots([](verbs::qp_info& c) { c.key ^= 0x100; }));
  run_test(wrong_slots([](verbs::qp_info& c) { c.chunks_at = 4096; }));
  run_test(wrong_slots([](verbs::qp_info& c) { c.chunks_at += 1 << 20; }));
}

/// A call that fails on a lane in use ends it: a waiting reader gets the reason.
awaitable<void> fail_in_use(call which, std::string expected) {
  const auto network = co_await make_network();
  lane_connection_pair connections = co_await lane_connection_pair::connect(*network, 0);
  rails::lane_connection& lane_connection = *connections.ends[0];
  char byte = 'x';
  const iovec part{&byte, 1};
  lane_connection.receive(std::span(&part, 1));  // the first credit update
  network->devices().fail_next(which, EIO);
  bool is_notified = false;
  lane_connection.wait_read([&is_notified](error_code failure) { is_notified = !failure; });
  if (which != call::req_notify_cq) {
    lane_connection.send(std::span(&part, 1));
    lane_connection.receive(std::span(&part, 1));
  }
  co_await until([&is_notified] { return is_notified; }, "the reader is notified");
  const ssize_t n = lane_connection.receive(std::span(&part, 1));
  const int number = errno;
  EXPECT_EQ(n, -1);
  EXPECT_EQ(number, ECONNRESET);
  EXPECT_NE(lane_connection.describe(number).find(expected), std::string::npos)
      << lane_connection.describe(number);
}

TEST(verbs_lane, names_the_failed_call) {
  const std::string at = "double0_0 port 1, GID 0 (RoCE v2, 10.0.0.1): ";
  run_test(fail_in_use(call::post_send, at + "ibv_post_send: Input/output error"));
  run_test(fail_in_use(call::req_notify_cq, at + "ibv_req_notify_cq"));
  run_test(fail_in_use(call::poll_cq, at + "its completion queue is broken"));
}

}  // namespace
}  // namespace tandem::test
