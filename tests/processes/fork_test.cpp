// What a child of fork() inherits from its parent's objects. Two processes of a job, one of which
// exits: tests/faults/forks.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/detail/fork.hpp>

#include "support/coroutine_test.hpp"
#include "support/fabric_maker.hpp"
#include "transports/shm/process_watch.hpp"

namespace tandem::test {
namespace {

/// Exit status of a child that runs this.
int in_child(const std::function<int()>& what) {
  const pid_t child = ::fork();
  if (child == 0) {
    int exit_code = 99;
    try {
      exit_code = what();
    } catch (...) {
      exit_code = 98;
    }
    ::_exit(exit_code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Open descriptors by number: "socket:[1234]", "anon_inode:[eventpoll]", a path.
std::map<int, std::string> descriptors() {
  std::map<int, std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    const std::string what = std::filesystem::read_symlink(entry.path(), closed).string();
    const int number = std::stoi(entry.path().filename());
    if (!closed && ::fcntl(number, F_GETFD) >= 0) found[number] = what;
  }
  return found;
}

/// Descriptors opened since `before` that a program started by exec would inherit.
std::string inherited_by_exec(const std::map<int, std::string>& before) {
  std::string left;
  for (const auto& [number, what] : descriptors()) {
    if (before.contains(number)) continue;
    const int flags = ::fcntl(number, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) left += what + ' ';
  }
  return left;
}

int sockets(const std::map<int, std::string>& but) {
  int found = 0;
  for (const auto& [number, what] : descriptors()) {
    if (!but.contains(number) && what.starts_with("socket:")) ++found;
  }
  return found;
}

awaitable<void> holds_no_socket(const fabric_kind* over) {
  const std::map<int, std::string> before = descriptors();
  const fabrics job = co_await over->make(3, {});
  for (const auto& each : job) {
    for (int peer = 0; peer < 3; ++peer) {
      if (peer != each->rank()) co_await each->to(peer);
    }
  }
  EXPECT_EQ(inherited_by_exec(before), "");
  if (over->name != "local") {
    EXPECT_GT(sockets(before), 0);
  }
  EXPECT_EQ(in_child([&] { return sockets(before); }), 0);
}

class forked : public testing::TestWithParam<fabric_kind> {};
INSTANTIATE_TEST_SUITE_P(over, forked, testing::ValuesIn(fabric_kinds()),
                         [](const auto& of) { return of.param.name; });

TEST_P(forked, child_inherits_no_socket_and_exec_no_descriptor) {
  run_test(holds_no_socket(&GetParam()));
}

awaitable<void> is_refused(const fabric_kind* over) {
  const fabrics job = co_await over->make(2, {});
  channel& to = co_await job[0]->to(1);
  channel& from = co_await job[1]->to(0);
  const auto refused = [&to] {
    operation op;
    op.what = operation::kind::send;
    const bool is_over = to.start(op);
    return is_over && op.result == errc::used_after_fork && op.failure ? 0 : 1;
  };
  EXPECT_EQ(in_child(refused), 0);
  EXPECT_EQ(in_child([&] {
              job[0]->fail(error(errc::bad_input, "of the child"));
              to.close();
              job[1]->close();
              return 0;
            }),
            0);
  // The parent is not affected.
  std::uint64_t sent = 42, received = 0;
  co_await to.send(0, const_view(&sent, 8));
  co_await from.recv(0, mutable_view(&received, 8));
  EXPECT_EQ(received, sent);
}

TEST_P(forked, child_use_is_refused_and_closes_nothing) {
  run_test(is_refused(&GetParam()));
}

asio::awaitable<void> receive_value(std::unique_ptr<channel> from, int* value) {
  co_await from->recv(0, mutable_view(value, sizeof *value));
}

asio::awaitable<void> send_value(std::unique_ptr<channel> to) {
  const int word = 7;
  co_await to->send(0, const_view(&word, sizeof word));
}

/// Sends one value over a new channel on its own io_context.
int new_channel() {
  asio::io_context context(1);
  auto [here, there] = local::make_pair(context.get_executor(), context.get_executor());
  int value = 0;
  asio::co_spawn(context, receive_value(std::move(there), &value), [](auto...) {});
  asio::co_spawn(context, send_value(std::move(here)), [](auto...) {});
  tandem::run(context);
  return value;
}

TEST(forked_process, may_create_new_objects) {
  EXPECT_EQ(new_channel(), 7);
  EXPECT_EQ(in_child(new_channel), 7);
  EXPECT_EQ(in_child([] { return in_child(new_channel); }), 7);
}

TEST(forked_process, may_not_run_context_of_parent) {
  asio::io_context context(1);
  tandem::run(context);
  const auto refused = [&context] {
    try {
      tandem::run(context);
      return 1;
    } catch (const error& e) {
      return e.code() == errc::used_after_fork ? 0 : 2;
    }
  };
  EXPECT_EQ(in_child(refused), 0);
}

TEST(forked_process, keeps_descriptor_that_reused_a_number) {
  const int socket = detail::open_socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(socket, 0);
  const int file = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::dup2(file, socket), socket);
  const auto reads = [socket] {
    char byte = 0;
    return ::read(socket, &byte, 1) == 1 ? 0 : 1;
  };
  EXPECT_EQ(in_child(reads), 0);
  ::close(socket);
  ::close(file);
}

TEST(forked_process, gets_copy_of_shared_buffers) {
  auto made = std::make_unique<shm::shared_buffer>(3 << 20);
  std::memset(made->data(), 5, made->size());
  const auto writes = [&made] {
    const auto* const last = reinterpret_cast<const char*>(made->data()) + made->size() - 1;
    const int found = *last;
    std::memset(made->data(), 6, made->size());
    made.reset();
    return found;
  };
  EXPECT_EQ(in_child(writes), 5);
  for (std::size_t i = 0; i < made->size(); ++i) ASSERT_EQ(made->data()[i], std::byte{5}) << i;
}

TEST(forked_process, reads_zeros_from_shared_rings) {
  constexpr std::size_t bytes = 8192;
  void* const shared =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  std::memset(shared, 9, bytes);
  detail::hide_from_children(shared, bytes, detail::inherited_as::zeros, -1);
  const auto writes = [shared] {
    char& first = *static_cast<char*>(shared);
    return std::exchange(first, 1);
  };
  EXPECT_EQ(in_child(writes), 0);
  EXPECT_EQ(*static_cast<char*>(shared), 9);
  detail::forget_mapping(shared);
  EXPECT_EQ(in_child(writes), 9);
  EXPECT_EQ(*static_cast<char*>(shared), 1);
  ::munmap(shared, bytes);
}

TEST(process_watch, detects_process_exit) {
  EXPECT_FALSE(shm::has_ended(::getpid()));
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  EXPECT_FALSE(shm::has_ended(child));
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  EXPECT_TRUE(shm::has_ended(child));  // although it was not reaped
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(shm::has_ended(child));
}

awaitable<void> watch_child(pid_t child) {
  const asio::any_io_executor here = co_await asio::this_coro::executor;
  const auto watch = std::make_shared<shm::process_watch>(here);
  const auto stopped = std::make_shared<shm::process_watch>(here);
  bool is_notified = false, is_notified_wrongly = false;
  watch->start(child, [&] { is_notified = true; });
  stopped->start(child, [&] { is_notified_wrongly = true; });
  stopped->stop();
  ::kill(child, SIGKILL);
  co_await until([&] { return is_notified; }, "the end of a process");
  EXPECT_FALSE(is_notified_wrongly);
}

TEST(process_watch, notifies_once) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  run_test(watch_child(child));
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace tandem::test
