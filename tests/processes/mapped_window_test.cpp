// The owner of a window's memory is stopped while another process puts and gets.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <tandem/channels.hpp>
#include <tandem/collectives.hpp>
#include <tandem/store.hpp>
#include <tandem/window.hpp>

#include "support/pattern.hpp"
#include "support/reserved_port.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t length = 3'000'000;

void require(bool kept, const char* what) {
  if (!kept) throw std::runtime_error(what);
}

asio::awaitable<void> owner_and_other(int rank, std::uint16_t port, pid_t owner) {
  launch_info who;
  who.rank = who.local_rank = rank;
  who.size = who.local_size = 2;
  who.address = "127.0.0.1";
  who.port = port;
  who.job = "stopped";
  std::shared_ptr<store> meeting = co_await store::meet(who, {});
  const std::unique_ptr<fabric> over = co_await shm::make_fabric(std::move(meeting), {});
  communicator world(*over, settings{});
  const shm::shared_buffer memory(length);
  {
    window shared = co_await make_window(world, memory.view());
    co_await barrier(world);
    if (rank == 0) {
      int status = 0;
      require(::waitpid(owner, &status, WUNTRACED) == owner && WIFSTOPPED(status), "not stopped");
      const std::vector<std::byte> out = pattern(length, 1);
      std::vector<std::byte> back(length);
      co_await shared.put(1, 0, out);
      co_await shared.flush(1);
      co_await shared.get(1, 0, back);
      require(back == out, "wrong bytes");
      ::kill(owner, SIGCONT);
      co_await shared.put(1, 0, {}, 17);
    } else {
      ::raise(SIGSTOP);
      const window_notification got = co_await shared.notified();
      require(got.value == 17, "another notification");
      require(!first_wrong({memory.data(), length}, 1), "wrong bytes in its memory");
    }
    co_await shared.close();
  }
  over->close();
}

void run(int rank, std::uint16_t port, pid_t owner) {
  asio::io_context loop;
  asio::co_spawn(loop, owner_and_other(rank, port, owner), [](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
  });
  loop.run();
}

TEST(MappedWindowOfAProcess, IsAccessedWhileItsOwnerIsStopped) {
  const reserved_port port;
  const pid_t owner = ::fork();
  if (owner == 0) {
    try {
      run(1, port.number(), 0);
      ::_exit(0);
    } catch (const std::exception& failure) {
      ADD_FAILURE() << failure.what();
      ::_exit(1);
    }
  }
  EXPECT_NO_THROW(run(0, port.number(), owner));
  ::kill(owner, SIGCONT);
  int status = 0;
  ASSERT_EQ(::waitpid(owner, &status, 0), owner);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace tandem::test
