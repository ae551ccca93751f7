// One of two ranks that fork during their job, as data loaders do.
// usage: forking_rank CHANNEL dies-after-fork | dies-after-clone | child-uses | child-execs
// Rank 1 forks the child; all of them print to standard output.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <tandem/collectives.hpp>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;
using tandem::channel;

namespace {

constexpr int rounds = 200;
constexpr std::size_t words = 40'000;  // longer than the eager part of a message

void print_line(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

/// Ends the child's copy of the parent's loop: everything that the child has inherited is
/// destroyed.
struct child_is_done {};

asio::awaitable<std::unique_ptr<tandem::fabric>> make(std::string kind,
                                                      std::shared_ptr<tandem::store> rendezvous,
                                                      tandem::settings options) {
  if (kind == "shm") return tandem::shm::make_fabric(std::move(rendezvous), std::move(options));
  if (kind == "rails") return tandem::rails::make_fabric(std::move(rendezvous), std::move(options));
  if (kind == "mixed") return tandem::mixed::make_fabric(std::move(rendezvous), std::move(options));
  return tandem::tcp::make_fabric(std::move(rendezvous), std::move(options));
}

/// Prints the result of an attempt of the child.
template <class Attempt>
asio::awaitable<void> attempt(const char* name, Attempt what) {
  std::string result = "was not refused";
  try {
    co_await what();
  } catch (const tandem::error& e) {
    result = e.code() == tandem::errc::used_after_fork ? "refused: " : "fails otherwise: ";
    result += e.what();
  }
  print_line(fmt::format("child: {}: {}", name, result));
}

struct rank {
  tandem::fabric& job;
  tandem::store& rendezvous;
  asio::io_context& context;
  channel& peer;
  tandem::communicator& world;
};

asio::awaitable<void> use_all(rank of) {
  std::byte byte{};
  const tandem::mutable_view view(&byte, 1);
  co_await attempt("send", [&] { return of.peer.send(1, view); });
  co_await attempt("recv", [&]() -> asio::awaitable<void> { co_await of.peer.recv(1, view); });
  co_await attempt("to", [&]() -> asio::awaitable<void> { co_await of.job.to(0); });
  co_await attempt("barrier", [&] { return tandem::barrier(of.world); });
  co_await attempt("store", [&] { return of.rendezvous.set("key", "value"); });
  co_await attempt("run", [&]() -> asio::awaitable<void> {
    tandem::run(of.context);
    co_return;
  });
  const auto options = tandem::settings::from_environment();
  co_await attempt("connect", [&]() -> asio::awaitable<void> {
    co_await tandem::tcp::connect("127.0.0.1", 9, options);
  });
  of.job.fail(tandem::error(tandem::errc::bad_input, "a child's failure is its own"));
  of.job.close();
  of.rendezvous.report(tandem::error(tandem::errc::bad_input, "a child's report is its own"));
  of.rendezvous.leave();
}

/// Keeps the child alive when the parent is killed.
[[noreturn]] void outlive() {
  ::prctl(PR_SET_NAME, "outlives");
  for (;;) ::pause();
}

int end_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// A message each way. Returns the number of wrong words.
asio::awaitable<std::uint64_t> exchange(channel& with, int own_rank, int round) {
  std::vector<std::uint64_t> out(words), in(words);
  for (std::size_t i = 0; i < words; ++i)
    out[i] = i * 31 + static_cast<std::uint64_t>(2 * round + own_rank);
  std::vector<asio::awaitable<void>> both;
  const tandem::const_view from(out.data(), words * 8);
  const tandem::mutable_view into(in.data(), words * 8);
  const auto receive = [](channel& c, tandem::mutable_view v) -> asio::awaitable<void> {
    co_await c.recv(1, v);
  };
  both.push_back(with.send(1, from));
  both.push_back(receive(with, into));
  co_await tandem::when_all(std::move(both));
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < words; ++i) {
    if (in[i] != i * 31 + static_cast<std::uint64_t>(2 * round + 1 - own_rank)) ++wrong;
  }
  co_return wrong;
}

/// During its traffic rank 1 forks children that exec, exit, or fork again.
void fork_some(int round) {
  if (round % 5 != 0) return;
  const pid_t child = ::fork();
  if (child == 0) {
    if (round % 15 == 0) ::execl("/proc/self/exe", "forking_rank", "descriptors", nullptr);
    if (round % 15 == 5) std::exit(0);
    ::_exit(::fork() == 0 ? 0 : end_of(-1));
  }
  const int status = end_of(child);
  if (status != 0) print_line(fmt::format("a child ended with status {:#x}", status));
}

asio::awaitable<void> work(rank of, int own_rank, std::string what) {
  std::uint64_t wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    wrong += co_await exchange(of.peer, own_rank, round);
    if (own_rank != 1) continue;
    if (what == "child-execs") fork_some(round);
    if (what == "child-uses" && round == rounds / 2) {
      const pid_t child = ::fork();
      if (child == 0) {
        co_await use_all(of);
        throw child_is_done{};
      }
      print_line(fmt::format("child ended with {}", end_of(child)));
    }
  }
  co_await tandem::barrier(of.world);
  print_line(fmt::format("rank {}: {} rounds, {} wrong words", own_rank, rounds, wrong));
}

asio::awaitable<void> die(rank of, int own_rank, std::string what) {
  if (own_rank == 1) {
    const pid_t child = what == "dies-after-clone" ? ::_Fork() : ::fork();
    if (child == 0) outlive();
    print_line(fmt::format("child {}", child));
  }
  co_await tandem::barrier(of.world);
  print_line("ready");
  std::byte byte{};
  const tandem::mutable_view view(&byte, 1);
  co_await of.peer.recv(1, view);
}

asio::awaitable<void> run(asio::io_context& context, std::string kind, std::string what) {
  const auto who = tandem::find_launch();
  if (!who) throw tandem::error(tandem::errc::bad_input, "no launcher started this");
  const auto options = tandem::settings::from_environment();
  const auto rendezvous = co_await tandem::store::meet(*who, options);
  const auto job = co_await make(std::move(kind), rendezvous, options);
  channel& peer = co_await job->to(1 - who->rank);
  auto world = co_await tandem::make_communicator(*job, options);
  const rank own_rank{*job, *rendezvous, context, peer, world};
  if (what.starts_with("dies")) {
    co_await die(own_rank, who->rank, what);
  } else {
    co_await work(own_rank, who->rank, what);
  }
  job->close();
  rendezvous->leave();
}

/// Counts the inherited descriptors of a process that was started by exec.
int count_descriptors() {
  int found = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) continue;
    print_line(fmt::format("descriptor {} was inherited by exec", fd));
    ++found;
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "descriptors") return count_descriptors();
  if (argc != 3) {
    fmt::print(stderr, "usage: forking_rank CHANNEL WHAT\n");
    return 2;
  }
  try {
    asio::io_context context(1);
    asio::co_spawn(context, run(context, argv[1], argv[2]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    tandem::run(context);
  } catch (const child_is_done&) {
    print_line("child: all is destroyed");
  } catch (const std::exception& e) {
    print_line(fmt::format("failed: {}", e.what()));
    return 1;
  }
  return 0;
}
