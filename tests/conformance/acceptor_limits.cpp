// A process that has run out of file descriptors while peers connect: they get an error, its log
// warns once, and a temporary shortage costs no connection.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <tandem/channels.hpp>
#include <tandem/log.hpp>
#include <vector>

#include "support/coroutine_test.hpp"

namespace tandem {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;

void set_soft_limit(rlim_t soft) {
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  now.rlim_cur = soft;
  ::setrlimit(RLIMIT_NOFILE, &now);
}

/// True: one of them is connected, and no memory is in flight to another process.
bool has_sent_hello() {
  bool is_connected = false;
  for (const fs::directory_entry& each : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (fs::read_symlink(each.path(), gone).string().find("memfd:tandem") != std::string::npos) {
      return false;
    }
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    const int fd = std::stoi(each.path().filename());
    is_connected =
        is_connected || ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0;
  }
  return is_connected;
}

/// The two ends of a connection, each on its own loop: the connecting end has all descriptors it
/// needs before the limit is set, and only then the other end begins to accept.
class two_loops {
 public:
  explicit two_loops(std::vector<std::string>& warnings) : warnings_(warnings) {
    set_log_sink([this](const log_record& logged) { warnings_.emplace_back(logged.text); },
                 log_level::warning);
  }

  template <class Connect>
  void start(Connect connect) {
    asio::co_spawn(connecting_, connect(),
                   [this](std::exception_ptr e, std::unique_ptr<channel> c) {
                     failure = e ? test::as_error(e) : std::nullopt;
                     made = std::move(c);
                     is_over = true;
                   });
  }
  /// Connects until the hello is sent; the listener has not read it.
  template <class Connect>
  void connect_until_hello(Connect connect) {
    start(connect);
    while (!is_over && !has_sent_hello()) connecting_.poll();
    for (int i = 0; i < 100; ++i) connecting_.poll();
  }
  /// Leaves exactly `free` descriptors below the limit.
  static void leave_free(int free) {
    std::vector<int> lowest;
    for (int i = 0; i <= free; ++i) lowest.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    set_soft_limit(static_cast<rlim_t>(lowest.back()));
    for (const int fd : lowest) ::close(fd);
  }
  template <class Condition>
  void run_until(Condition condition) {
    while (!condition()) poll_both();
  }
  void poll_both() {
    accepting_.poll();
    connecting_.poll();
  }
  asio::any_io_executor acceptor() { return accepting_.get_executor(); }

  bool is_over = false;
  std::optional<error> failure;
  std::unique_ptr<channel> made;

 private:
  std::vector<std::string>& warnings_;
  asio::io_context accepting_, connecting_;
};

enum class shortage { permanent, temporary, of_one_descriptor };

int warnings_of(const std::vector<std::string>& logged) {
  return static_cast<int>(std::ranges::count_if(logged, [](const std::string& text) {
    return text.find("cannot accept connections: ") != std::string::npos &&
           text.find("RLIMIT_NOFILE") != std::string::npos;
  }));
}

void expect_refused(const std::optional<error>& failure) {
  test::expect_error(failure, errc::limit_exceeded,
                     {"is out of file descriptors and cannot accept connections", "ulimit -n"});
}

/// Runs in a process of its own, which exits here.
template <class Listen, class Connect>
[[noreturn]] void run_shortage(Listen listen, Connect connect, shortage how) {
  std::vector<std::string> warnings;
  two_loops ends(warnings);
  auto at = listen(ends.acceptor());
  ends.connect_until_hello([&] { return connect(at); });
  const rlim_t before = 1024;
  ends.leave_free(how == shortage::of_one_descriptor ? 1 : 0);
  if (how == shortage::temporary) {
    ends.run_until([&] { return warnings_of(warnings) > 0; });
    set_soft_limit(before);
  }
  ends.run_until([&] { return ends.is_over; });
  set_soft_limit(before);
  if (how == shortage::temporary) {
    EXPECT_TRUE(ends.made) << (ends.failure ? ends.failure->what() : "");
  } else {
    expect_refused(ends.failure);
  }
  EXPECT_EQ(warnings_of(warnings), how == shortage::of_one_descriptor ? 0 : 1);
  EXPECT_EQ(warnings.size(), how == shortage::of_one_descriptor ? 0U : 1U) << warnings.back();
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

void run_shortage_over_tcp(shortage how) {
  run_shortage([](auto executor) { return tcp::listener(executor, "127.0.0.1", 0, settings()); },
               [](tcp::listener& at) { return tcp::connect("127.0.0.1", at.port(), settings()); },
               how);
}

void run_shortage_over_shm(shortage how) {
  run_shortage([](auto executor) { return shm::listener(executor, "", settings()); },
               [](shm::listener& at) { return shm::connect(at.name(), settings()); }, how);
}

/// Puts `count` descriptors in flight, sent by this user and not received.
int send_many(int count) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  std::vector<int> all(static_cast<std::size_t>(count), ends[0]);
  const std::size_t bytes = all.size() * sizeof(int);
  std::vector<std::max_align_t> control(CMSG_SPACE(bytes) / sizeof(std::max_align_t) + 1);
  char byte = 0;
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(head), all.data(), bytes);
  EXPECT_EQ(::sendmsg(ends[0], &message, 0), 1);
  ::close(ends[0]);
  return ends[1];  // closing it releases them
}

/// The kernel limits descriptors in flight for each user but root (ETOOMANYREFS).
[[noreturn]] void pass_memory_with_many_in_flight(bool is_permanent) {
  constexpr int limit = 64;
  if (::geteuid() == 0 && ::setuid(61234) != 0) ::_exit(0);
  const int in_flight = send_many(limit + 8);
  set_soft_limit(limit);
  std::vector<std::string> warnings;
  two_loops ends(warnings);
  shm::listener at(ends.acceptor(), "", settings());
  ends.start([&] { return shm::connect(at.name(), settings()); });
  for (int i = 0; i < 1000; ++i) ends.poll_both();
  EXPECT_FALSE(ends.is_over);
  if (!is_permanent) ::close(in_flight);
  ends.run_until([&] { return ends.is_over; });
  if (is_permanent) {
    test::expect_error(ends.failure, errc::limit_exceeded, {"in flight", "RLIMIT_NOFILE: 64"});
  } else {
    EXPECT_TRUE(ends.made) << (ends.failure ? ends.failure->what() : "");
  }
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

const auto exits_with_0 = testing::ExitedWithCode(0);

TEST(acceptor_limits, a_permanent_shortage_of_descriptors_is_reported_to_the_peer) {
  EXPECT_EXIT(run_shortage_over_tcp(shortage::permanent), exits_with_0, "");
  EXPECT_EXIT(run_shortage_over_shm(shortage::permanent), exits_with_0, "");
}

TEST(acceptor_limits, a_temporary_shortage_of_descriptors_costs_no_connection) {
  EXPECT_EXIT(run_shortage_over_tcp(shortage::temporary), exits_with_0, "");
  EXPECT_EXIT(run_shortage_over_shm(shortage::temporary), exits_with_0, "");
}

TEST(acceptor_limits, memory_is_passed_once_fewer_descriptors_are_in_flight) {
  EXPECT_EXIT(pass_memory_with_many_in_flight(false), exits_with_0, "");
  EXPECT_EXIT(pass_memory_with_many_in_flight(true), exits_with_0, "");
}

TEST(acceptor_limits, memory_that_could_not_be_received_is_reported_to_the_peer) {
  EXPECT_EXIT(run_shortage_over_shm(shortage::of_one_descriptor), exits_with_0, "");
}

}  // namespace
}  // namespace tandem
