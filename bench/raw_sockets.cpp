// Plain sockets: no header, no flows, no events. Blocking (--mode blocking, the default) as most
// programs use them, and busy-polled (--mode polled), the limit of anything over TCP.
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>

#include "harness.hpp"

namespace {

using tandem::bench::message;

class raw_socket : public tandem::bench::endpoint {
 public:
  raw_socket(int rank, int socket, bool polls)
      : rank_(rank), socket_(socket), flags_(MSG_NOSIGNAL | (polls ? MSG_DONTWAIT : 0)) {}
  ~raw_socket() override { close(socket_); }
  std::string channel() const override {
    return (flags_ & MSG_DONTWAIT) != 0 ? "raw-polled" : "raw";
  }
  int rank() const override { return rank_; }
  int size() const override { return 2; }

  void send(int, std::span<const message> window) override {
    for (const message one : window) {
      move(one,
           [this](std::byte* at, std::size_t bytes) { return ::send(socket_, at, bytes, flags_); });
    }
  }
  void recv(int, std::span<const message> window) override {
    for (const message one : window) {
      move(one,
           [this](std::byte* at, std::size_t bytes) { return ::recv(socket_, at, bytes, flags_); });
    }
  }

 private:
  template <class Call>
  void move(message one, Call call) {
    for (std::size_t done = 0; done < one.size();) {
      const ssize_t n = call(one.data() + done, one.size() - done);
      if (n > 0) {
        done += static_cast<std::size_t>(n);
      } else {
        tandem::bench::require(n < 0 && errno == EAGAIN, "a socket");
        sched_yield();  // the peer may be on this core
      }
    }
  }

  int rank_, socket_, flags_;
};

}  // namespace

int main(int argc, char** argv) {
  const tandem::bench::plan what = tandem::bench::parse_plan(argc, argv);
  if (!what.mode.empty() && what.mode != "blocking" && what.mode != "polled") {
    std::fprintf(stderr, "this program has --mode blocking and --mode polled\n");
    return 2;
  }
  const tandem::bench::loopback_listener listener = tandem::bench::listen_on_loopback();
  return tandem::bench::fork_ranks(2, [&](int rank) {
    try {
      raw_socket at(rank, tandem::bench::connect_pair(listener, rank), what.mode == "polled");
      return tandem::bench::measure(at, what);
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "%s\n", failure.what());
      return 2;
    }
  });
}
