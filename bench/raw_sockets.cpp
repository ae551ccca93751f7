// What do plain blocking sockets give? The floor under every TCP channel: no header, no flows, no
// polling.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "harness.hpp"

namespace {

using tandem::bench::message;

class raw_socket : public tandem::bench::endpoint {
 public:
  raw_socket(int rank, int socket) : rank_(rank), socket_(socket) {}
  ~raw_socket() override { close(socket_); }
  std::string channel() const override { return "raw"; }
  int rank() const override { return rank_; }
  int size() const override { return 2; }

  void send(int, std::span<const message> window) override {
    for (const message one : window) {
      for (std::size_t done = 0; done < one.size();) {
        const ssize_t n = ::send(socket_, one.data() + done, one.size() - done, MSG_NOSIGNAL);
        tandem::bench::require(n > 0, "send");
        done += static_cast<std::size_t>(n);
      }
    }
  }
  void recv(int, std::span<const message> window) override {
    for (const message one : window) {
      for (std::size_t done = 0; done < one.size();) {
        const ssize_t n = ::recv(socket_, one.data() + done, one.size() - done, 0);
        tandem::bench::require(n > 0, "recv");
        done += static_cast<std::size_t>(n);
      }
    }
  }

 private:
  int rank_, socket_;
};

}  // namespace

int main(int argc, char** argv) {
  const tandem::bench::plan what = tandem::bench::parse_plan(argc, argv);
  const tandem::bench::loopback_listener listener = tandem::bench::listen_on_loopback();
  return tandem::bench::fork_ranks(2, [&](int rank) {
    try {
      raw_socket at(rank, tandem::bench::connect_pair(listener, rank));
      return tandem::bench::measure(at, what);
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "%s\n", failure.what());
      return 2;
    }
  });
}
