#include "transports/rails/nic/bind_nic.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>

namespace tandem::rails {
namespace {

/// Empty once the socket is bound to the device; otherwise the reason why it is not.
std::string bind_device(int handle, const nic& to, bool peer_is_local) {
  if (peer_is_local) return "the peer is on this machine";
  const auto length = static_cast<socklen_t>(to.name.size());
  if (::setsockopt(handle, SOL_SOCKET, SO_BINDTODEVICE, to.name.c_str(), length) == 0) return {};
  if (errno == EPERM) return "needs CAP_NET_RAW, or Linux 5.7";
  return detail::errno_text(errno);
}

}  // namespace

binding bind_nic(asio::ip::tcp::socket& fresh, const nic& to, const asio::ip::address& source,
                 bool peer_is_local) {
  binding got;
  const int handle = fresh.native_handle();
  // The port is chosen at connect(), from the whole four-tuple, so that more connections fit.
  const int on = 1;
  ::setsockopt(handle, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  boost::system::error_code failure;
  fresh.bind({source, 0}, failure);
  if (failure) {
    throw error(
        errc::bad_input,
        fmt::format("{} cannot be bound to {}: {}", source.to_string(), to.name, failure.message()),
        "tandem rails lists interfaces and addresses");
  }
  got.address = true;
  got.why_not = bind_device(handle, to, peer_is_local);
  got.device = got.why_not.empty();
  return got;
}

bool is_local_address(const std::vector<nic>& nics, const asio::ip::address& where) noexcept {
  return where.is_loopback() || std::any_of(nics.begin(), nics.end(), [&where](const nic& n) {
           return std::any_of(n.addresses.begin(), n.addresses.end(),
                              [&where](const nic_address& a) { return a.where == where; });
         });
}

std::optional<std::uint64_t> tx_bytes_of(const std::string& interface) {
  if (interface.empty() || interface.find('/') != std::string::npos) return std::nullopt;
  std::ifstream from("/sys/class/net/" + interface + "/statistics/tx_bytes");
  std::uint64_t bytes = 0;
  if (!(from >> bytes)) return std::nullopt;
  return bytes;
}

egress check_egress(std::optional<std::uint64_t> before, std::optional<std::uint64_t> after,
                    std::uint64_t bytes) noexcept {
  if (!before || !after || *after < *before) return egress::unknown;
  return *after - *before >= bytes ? egress::as_bound : egress::elsewhere;
}

}  // namespace tandem::rails
