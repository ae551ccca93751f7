#include <fmt/format.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>

#include "fabric/tcp_connect.hpp"

namespace tandem::transport {
namespace {

constexpr std::string_view system_default = "system";
constexpr std::string_view within_host_default = "reno";

/// 0, or errno.
int set(int socket, std::string_view name) noexcept {
  const auto bytes = static_cast<socklen_t>(name.size());
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), bytes) == 0 ? 0 : errno;
}

bool is_within_host(const asio::ip::tcp::socket& which) {
  error_code failure;
  const asio::ip::address here = which.local_endpoint(failure).address();
  if (failure) return false;
  const asio::ip::address there = which.remote_endpoint(failure).address();
  return !failure && (there.is_loopback() || there == here);
}

std::string allowed() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  std::string names;
  std::getline(file, names);
  return names;
}

}  // namespace

void choose_congestion(asio::ip::tcp::socket& of, const settings& options) {
  if (options.congestion == system_default) return;
  if (!options.congestion.empty()) {
    set(of.native_handle(), options.congestion);
  } else if (is_within_host(of)) {
    set(of.native_handle(), within_host_default);
  }
}

void check_congestion(const settings& options) {
  if (options.congestion.empty() || options.congestion == system_default) return;
  const int trial = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (trial < 0) return;
  const int failed = set(trial, options.congestion);
  ::close(trial);
  if (failed == 0) return;
  throw error(errc::bad_option,
              fmt::format("congestion={}: rejected by the kernel: {}", options.congestion,
                          detail::errno_text(failed)),
              fmt::format("choose auto, system, or an algorithm it allows: {}", allowed()));
}

}  // namespace tandem::transport
