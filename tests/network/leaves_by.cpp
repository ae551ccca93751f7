// Sends bytes from a NIC to a listener in another network namespace, bound to the address only and
// bound to the device, and checks the counters. Another NIC of the same subnet must come first in
// the routes.
// usage: leaves_by INTERFACE SOURCE PEER NAMESPACE_FILE

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <boost/asio.hpp>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "transports/rails/nic/bind_nic.hpp"

namespace tandem::rails {
namespace {

using asio::ip::tcp;
constexpr std::size_t payload_bytes = 1 << 20;

/// Enters a network namespace; sockets stay in the one in which they were made.
void enter(const std::string& file) {
  const int handle = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = handle >= 0 && ::setns(handle, CLONE_NEWNET) == 0;
  if (handle >= 0) ::close(handle);
  if (!entered) throw std::runtime_error("cannot enter " + file);
}

tcp::acceptor listen_in(asio::io_context& loop, const std::string& file,
                        const asio::ip::address& where) {
  const std::string home = fmt::format("/proc/{}/ns/net", ::getpid());
  const int back = ::open(home.c_str(), O_RDONLY | O_CLOEXEC);
  enter(file);
  tcp::acceptor acceptor(loop, {where, 0});
  if (back < 0 || ::setns(back, CLONE_NEWNET) != 0) throw std::runtime_error("cannot come back");
  ::close(back);
  return acceptor;
}

egress send_all(tcp::socket& from, tcp::acceptor& acceptor, const std::string& interface) {
  const auto before = tx_bytes_of(interface);
  from.connect(acceptor.local_endpoint());
  tcp::socket there = acceptor.accept();
  const std::vector<char> piece(64 * 1024);
  std::vector<char> arrived(piece.size());
  for (std::size_t sent = 0; sent < payload_bytes; sent += piece.size()) {
    asio::write(from, asio::buffer(piece));
    asio::read(there, asio::buffer(arrived));
  }
  return check_egress(before, tx_bytes_of(interface), payload_bytes);
}

int check(const nic& one, const asio::ip::address& source, const asio::ip::address& peer,
          const std::string& file) {
  asio::io_context loop;
  tcp::acceptor acceptor = listen_in(loop, file, peer);
  tcp::socket by_address(loop, tcp::v4()), by_device_socket(loop, tcp::v4());
  const binding address_only = bind_nic(by_address, one, source, true);
  const binding both = bind_nic(by_device_socket, one, source, false);
  if (!both.device) {
    fmt::print("skipped: may not bind a socket to a device: {}\n", both.why_not);
    return 77;
  }
  const egress by_route = send_all(by_address, acceptor, one.name);
  const egress by_device = send_all(by_device_socket, acceptor, one.name);
  const bool right = address_only.address && !address_only.device && both.address &&
                     by_route == egress::elsewhere && by_device == egress::as_bound;
  fmt::print("by address: {}, by device: {} (0 by it, 1 by another, 2 unknown): {}\n",
             static_cast<int>(by_route), static_cast<int>(by_device), right ? "right" : "wrong");
  return right ? 0 : 1;
}

int leaves_by(const std::vector<std::string>& args) {
  for (const nic& one : find_nics()) {
    if (one.name != args.at(1)) continue;
    return check(one, asio::ip::make_address(args.at(2)), asio::ip::make_address(args.at(3)),
                 args.at(4));
  }
  throw std::runtime_error("no interface " + args.at(1));
}

}  // namespace
}  // namespace tandem::rails

int main(int count, char** values) {
  try {
    return tandem::rails::leaves_by(std::vector<std::string>(values, values + count));
  } catch (const std::exception& failure) {
    fmt::print(stderr, "leaves_by: {}\n", failure.what());
    return 1;
  }
}
