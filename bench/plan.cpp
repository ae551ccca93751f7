#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "harness.hpp"

namespace tandem::bench {

namespace {

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr,
               "%s\nusage: OP --bytes 8,64K --iters 1000,200 [--ranks N] [--depth N] "
               "[--warmup N] [--mode WORD]\n",
               why.c_str());
  std::exit(2);
}

std::size_t number(const std::string& text) {
  std::size_t value = 0;
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(rest, text.data() + text.size());
  if (failed != std::errc()) refuse("'" + text + "' is not a number");
  if (unit == "K") return value << 10;
  if (unit == "M") return value << 20;
  if (!unit.empty()) refuse("'" + text + "': write a number, or one with K or M");
  return value;
}

std::vector<std::size_t> numbers(const std::string& text) {
  std::vector<std::size_t> values;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    values.push_back(number(text.substr(at, comma - at)));
    at = comma + 1;
  }
  return values;
}

}  // namespace

plan parse_plan(int argc, char** argv) {
  if (argc < 2) refuse("no operation given");
  plan made;
  made.op = argv[1];
  const std::vector<std::string> known{"pingpong",  "oneway",        "allreduce", "broadcast",
                                       "allgather", "reducescatter", "alltoall",  "barrier"};
  if (std::ranges::find(known, made.op) == known.end()) refuse("no operation '" + made.op + "'");
  if (made.op == "oneway") made.depth = 16;
  std::vector<std::size_t> bytes{0}, iters{1000};
  for (int i = 2; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) refuse(name + " needs a value");
    const std::string value = argv[i + 1];
    if (name == "--bytes")
      bytes = numbers(value);
    else if (name == "--iters")
      iters = numbers(value);
    else if (name == "--ranks")
      made.ranks = static_cast<int>(number(value));
    else if (name == "--depth")
      made.depth = static_cast<int>(number(value));
    else if (name == "--warmup")
      made.warmup = static_cast<std::int64_t>(number(value));
    else if (name == "--mode")
      made.mode = value;
    else
      refuse("no option '" + name + "'");
  }
  if (iters.size() != 1 && iters.size() != bytes.size())
    refuse("as many --iters as --bytes, or one");
  if (made.depth < 1 || made.ranks < 2 || std::ranges::min(iters) < 1)
    refuse("a number is too small");
  if (made.op == "barrier") bytes = {0};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == 0 && made.op != "barrier") refuse("--bytes must be given and not 0");
    made.measurements.push_back(
        {bytes[i], static_cast<std::int64_t>(iters[iters.size() == 1 ? 0 : i])});
  }
  return made;
}

namespace {

/// Moves this process to core `index` of its affinity mask and restores the mask: the initial
/// placement, not pinning. Two forked ranks otherwise start on one core, and two that poll may stay
/// there for half a second.
void begin_on_core(int index) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  int left = index % CPU_COUNT(&allowed);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (sched_setaffinity(0, sizeof(one), &one) == 0)
      sched_setaffinity(0, sizeof(allowed), &allowed);
    return;
  }
}

}  // namespace

int fork_ranks(int ranks, const std::function<int(int)>& body) {
  std::fflush(stdout);
  for (int rank = 1; rank < ranks; ++rank) {
    const pid_t child = fork();
    require(child >= 0, "fork");
    if (child != 0) continue;
    begin_on_core(rank);
    std::exit(body(rank));
  }
  begin_on_core(0);
  int worst = body(0);
  for (int status = 0; wait(&status) > 0;) {
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  return worst;
}

void require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

loopback_listener listen_on_loopback() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(at);
  require(bind(listener, reinterpret_cast<sockaddr*>(&at), length) == 0, "bind");
  require(listen(listener, 1) == 0, "listen");
  require(getsockname(listener, reinterpret_cast<sockaddr*>(&at), &length) == 0, "getsockname");
  return {listener, ntohs(at.sin_port)};
}

int connect_pair(const loopback_listener& at, int rank) {
  int socket_here = -1;
  if (rank == 0) {
    socket_here = accept(at.descriptor, nullptr, nullptr);
    require(socket_here >= 0, "accept");
  } else {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(at.port);
    socket_here = socket(AF_INET, SOCK_STREAM, 0);
    require(connect(socket_here, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0, "connect");
  }
  close(at.descriptor);
  const int on = 1;
  require(setsockopt(socket_here, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0, "TCP_NODELAY");
  return socket_here;
}

}  // namespace tandem::bench
