#include "own_ids.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <tandem/channels.hpp>
#include <tandem/detail/trust.hpp>
#include <tandem/error.hpp>
#include <tandem/launch.hpp>
#include <utility>

#include "job_state.hpp"

namespace tandem::nccl_abi {
namespace {

namespace ip = asio::ip;

template <std::size_t N>
std::array<std::byte, N> random_bytes() {
  trust::digest random;
  trust::random_bytes(random);
  std::array<std::byte, N> some;
  static_assert(N <= sizeof random);
  std::copy_n(random.begin(), N, some.begin());
  return some;
}

/// True where `name` is chosen by NCCL_SOCKET_IFNAME: "eth,ib" (prefixes), "=eth0" (names),
/// "^docker,lo" (all but these).
bool is_chosen(std::string_view name, std::string_view by) {
  const bool is_inverted = by.starts_with('^');
  if (is_inverted) by.remove_prefix(1);
  const bool is_exact = by.starts_with('=');
  if (is_exact) by.remove_prefix(1);
  bool is_listed = false;
  while (!by.empty()) {
    const std::string_view term = by.substr(0, by.find(','));
    by.remove_prefix(std::min(term.size() + 1, by.size()));
    if (term.empty()) continue;
    is_listed = is_listed || (is_exact ? name == term : name.starts_with(term));
  }
  return is_listed != is_inverted;
}

bool is_on_one_host() {
  try {
    const std::optional<launch_info> found = find_launch();
    return found && found->local_size_known && found->local_size == found->size;
  } catch (const error&) {  // variables of a launcher that are not for us
    return false;
  }
}

ip::address choose_address(const settings& options) {
  const char* const by = std::getenv("NCCL_SOCKET_IFNAME");
  if (by != nullptr && *by != '\0') {
    const auto found =
        c::find_interface_address(options, [by](const std::string& n) { return is_chosen(n, by); });
    if (found) return *found;
    throw error(errc::bad_input,
                fmt::format("NCCL_SOCKET_IFNAME={}: no such interface is up, with an address", by),
                "`tandem rails` lists the interfaces of this host");
  }
  if (is_on_one_host()) return ip::address_v4::loopback();
  const auto external = c::find_external_address(options);
  return external.value_or(ip::address_v4::loopback());
}

}  // namespace

/// Sockets that are bound and do not listen, so that connections are refused until a rank does.
class own_ids::reservations {
 public:
  std::uint16_t hold(const std::array<std::byte, 16>& job, const ip::address& at) {
    const std::lock_guard lock(mutex_);
    ip::tcp::acceptor held(context_);
    const ip::tcp::endpoint where(at, 0);
    held.open(where.protocol());
    held.set_option(ip::tcp::acceptor::reuse_address(true));
    held.bind(where);
    const std::uint16_t port = held.local_endpoint().port();
    ports_.emplace(job, std::move(held));
    return port;
  }
  bool release(const std::array<std::byte, 16>& job) {
    const std::lock_guard lock(mutex_);
    return ports_.erase(job) != 0;
  }

 private:
  std::mutex mutex_;
  asio::io_context context_{1};
  std::map<std::array<std::byte, 16>, ip::tcp::acceptor> ports_;
};

own_ids::own_ids() : held_(std::make_unique<reservations>()) {}

own_ids& own_ids::of_process() {
  static own_ids& only = *new own_ids;
  return only;
}

unique_id own_ids::make(const settings& options) {
  meeting_point made;
  made.address = choose_address(options);
  made.job = random_bytes<16>();
  made.key = random_bytes<32>();
  made.port = held_->hold(made.job, made.address);
  return encode(made);
}

bool own_ids::take(const meeting_point& which) {
  return held_->release(which.job);
}

void own_ids::release(const unique_id& which) noexcept {
  try {
    take(decode(which));
  } catch (const error&) {  // no id at all
  }
}

}  // namespace tandem::nccl_abi
