// Who may connect through shared memory, and what the kernel may forbid.

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>

#include "conformance/shm_peer.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

awaitable<void> connect_only(std::string name, settings options) {
  std::unique_ptr<channel> made = co_await shm::connect(std::move(name), std::move(options));
}

awaitable<void> counted(shm::listener& listener, std::uint64_t count) {
  const auto is_counted = [&listener, count] { return listener.rejected_connections() == count; };
  co_await until(is_counted, "the rejected connection to be counted");
}

awaitable<void> good_peer(shm::listener& listener, settings options) {
  std::unique_ptr<channel> remote = co_await shm::connect(listener.name(), options);
  std::unique_ptr<channel> local = co_await listener.accept();
  co_await expect_usable(*local, *remote);
}

awaitable<void> refused_over_shm(settings local, settings remote, std::string words) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  shm::listener listener(executor, "", local);
  const auto failure = co_await failure_of(connect_only(listener.name(), remote));
  expect_error(failure, errc::not_trusted, {words, "TANDEM_SECRET_FILE"});
  co_await counted(listener, 1);
  co_await good_peer(listener, local);
}

TEST(shm_trust, another_secret_is_refused) {
  expect_log("it closed the connection without a proof");
  run_test(
      refused_over_shm(with_secret(), with_secret("another job's secret"), "different job secret"));
}
TEST(shm_trust, a_peer_without_a_secret_is_refused) {
  expect_log("has a job secret, the connecting peer has none");
  run_test(refused_over_shm(with_secret(), small_settings(), "has a job secret"));
}
TEST(shm_trust, a_listener_without_a_secret_is_refused) {
  expect_log("has no job secret, the connecting peer has one");
  run_test(refused_over_shm(small_settings(), with_secret(), "has no job secret"));
}

TEST(shm_trust, no_listener) {
  const auto body = []() -> awaitable<void> {
    settings options;
    options.meet_timeout = 50ms;
    const auto failure = co_await failure_of(connect_only("tandem-nobody", options));
    expect_error(failure, errc::unreachable, {"no listener named 'tandem-nobody' on this host"});
  };
  run_test(body());
}

TEST(shm_trust, a_name_is_held_once) {
  const auto body = []() -> awaitable<void> {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    const shm::listener listener(executor);
    EXPECT_THROW(shm::listener(executor, listener.name()), error);
  };
  run_test(body());
}

/// Idle unauthenticated connections are dropped when new ones arrive; the job's own ranks connect
/// without delay.
awaitable<void> connect_many_over_shm() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  shm::listener listener(executor, "", with_secret());
  const auto where = shm::abstract_endpoint(listener.name());
  std::vector<asio::local::stream_protocol::socket> rejected_connections;
  for (int i = 0; i < 1000; ++i) {
    rejected_connections.emplace_back(executor);
    co_await rejected_connections.back().async_connect(where, asio::use_awaitable);
    if (i % 100 == 99) co_await good_peer(listener, with_secret());
  }
  const auto only_the_last_wait = [&listener] {
    return listener.rejected_connections() >= 1000 - 64;
  };
  co_await until(only_the_last_wait, "the others to be dropped");
  co_await good_peer(listener, with_secret());
}

TEST(shm_trust, unauthenticated_connections_are_bounded) {
  expect_log("newer connections are waiting");
  run_test(connect_many_over_shm(), drive::by_asio, 60s);
}

awaitable<void> rejects_bytes(std::string words) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  shm::listener listener(executor, "", small_settings());
  asio::local::stream_protocol::socket peer(executor);
  co_await peer.async_connect(shm::abstract_endpoint(listener.name()), asio::use_awaitable);
  co_await asio::async_write(peer, asio::buffer(words), asio::use_awaitable);
  co_await counted(listener, 1);
  co_await good_peer(listener, small_settings());
}

TEST(shm_trust, another_program) {
  expect_log("it sent 'GET / HTTP/1.1'");
  run_test(rejects_bytes("GET / HTTP/1.1"));
}

std::string plain_hello() {
  transport::hello local;
  local.limits = protocol::offered(small_settings());
  transport::wire_hello wire;
  transport::encode(local, wire);
  return std::string(reinterpret_cast<const char*>(wire.data()), wire.size());
}

TEST(shm_trust, a_hello_without_memory) {
  expect_log("not sealed memory");
  run_test(rejects_bytes(plain_hello()));
}

/// Memory of another program: a file that may shrink, or one of another size.
void rejects_memory(std::size_t bytes, int seals, const std::string& complaint) {
  shm::descriptor file(::memfd_create("tandem test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
  try {
    shm::memory::open(std::move(file));
    ADD_FAILURE() << "it was taken";
  } catch (const error& e) {
    expect_error(e, errc::protocol_violation, {complaint});
  }
}

TEST(shm_trust, memory_of_another_program_is_refused) {
  constexpr int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  constexpr std::size_t right = 4096 + 2 * 65536;
  rejects_memory(right, 0, "not sealed memory");
  rejects_memory(right, F_SEAL_GROW | F_SEAL_SEAL, "not sealed memory");
  rejects_memory(right - 1, all, "not the size of two rings");
  rejects_memory(right + 128, all, "not the size of two rings");
  rejects_memory(0, all, "not the size of two rings");
  rejects_memory(4096 + 2 * 4096, all, "not the size of two rings");
}

/// From now on, this process may not read the memory of another.
void forbid_reading_others() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog all{sizeof program / sizeof *program, program};
  const bool done = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                    ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all, 0, 0) == 0;
  if (!done) ::_exit(3);
}

awaitable<void> echoes_without_reading(std::string name, settings options) {
  forbid_reading_others();
  std::unique_ptr<channel> parent = co_await shm::connect(std::move(name), std::move(options));
  co_await recv_pattern(*parent, 0, 5'000'000, 1);
  co_await send_pattern(*parent, 0, 5'000'000, 2);
  co_await parent->recv(1, mutable_view());
}

awaitable<void> falls_back() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  settings options;
  options.shm_single_copy = single_copy::on;
  shm::listener listener(executor, "", options);
  const pid_t child = start_shm_peer(echoes_without_reading, listener.name(), options);
  require(child > 0, "no process");
  std::unique_ptr<channel> peer = co_await listener.accept();
  co_await send_pattern(*peer, 0, 5'000'000, 1);
  co_await recv_pattern(*peer, 0, 5'000'000, 2);
  co_await peer->send(1, const_view());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(shm_trust, the_ring_is_used_without_permission_to_read) {
  run_test(falls_back());
}

/// A peer of another user: rejected before any of its bytes is read.
awaitable<void> connects_as_nobody(std::string name, settings options) {
  if (::setresuid(65534, 65534, 65534) != 0) ::_exit(3);
  const auto failure = co_await failure_of(connect_only(std::move(name), std::move(options)));
  expect_error(failure, errc::not_trusted, {"belongs to another user"});
}

awaitable<void> refuses_another_user() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  shm::listener listener(executor, "", small_settings());
  settings options = small_settings();
  options.meet_timeout = 1ms;
  const pid_t child = start_shm_peer(connects_as_nobody, listener.name(), options);
  require(child > 0, "no process");
  co_await counted(listener, 1);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(shm_trust, another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  expect_log("it belongs to another user");
  run_test(refuses_another_user());
}

}  // namespace
}  // namespace tandem::test
