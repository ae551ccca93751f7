#include "meeting_point.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <tandem/channels.hpp>
#include <tandem/detail/crc32c.hpp>
#include <tandem/detail/trust.hpp>
#include <tandem/error.hpp>
#include <tandem/launch.hpp>
#include <utility>
#include <vector>

#include "job_state.hpp"

namespace tandem::nccl_abi {
namespace {

namespace ip = asio::ip;

constexpr std::string_view magic = "tandemid";
constexpr std::byte layout_version{1};
constexpr std::size_t address_at = 12, job_at = 28, key_at = 44, crc_at = 76;

using id_bytes = std::array<std::byte, sizeof(unique_id)>;

std::uint32_t crc_of(const id_bytes& id) noexcept {
  return crc32c(id.data(), crc_at);
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte each : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(each));
  return text;
}

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

std::string meeting_point::job_text() const {
  return hex(job);
}

std::string meeting_point::key_text() const {
  return hex(key);
}

unique_id encode(const meeting_point& from) noexcept {
  id_bytes id{};
  std::memcpy(id.data(), magic.data(), magic.size());
  id[8] = layout_version;
  id[9] = std::byte(from.address.is_v4() ? 4 : 6);
  id[10] = std::byte(from.port >> 8);
  id[11] = std::byte(from.port & 0xff);
  if (from.address.is_v4()) {
    const auto bytes = from.address.to_v4().to_bytes();
    std::memcpy(&id[address_at], bytes.data(), bytes.size());
  } else {
    const auto bytes = from.address.to_v6().to_bytes();
    std::memcpy(&id[address_at], bytes.data(), bytes.size());
  }
  std::copy(from.job.begin(), from.job.end(), &id[job_at]);
  std::copy(from.key.begin(), from.key.end(), &id[key_at]);
  const std::uint32_t crc = crc_of(id);
  for (std::size_t i = 0; i < 4; ++i) id[crc_at + i] = std::byte((crc >> (8 * i)) & 0xff);
  unique_id made;
  std::memcpy(made.internal, id.data(), id.size());
  return made;
}

meeting_point decode(const unique_id& from) {
  id_bytes id;
  std::memcpy(id.data(), from.internal, id.size());
  if (std::memcmp(id.data(), magic.data(), magic.size()) != 0) {
    throw error(errc::bad_input, "this unique id was not made by Tandem",
                "every rank has to load Tandem in place of NCCL or RCCL (`tandem run --nccl`), and "
                "the id has to reach it as ncclGetUniqueId returned it");
  }
  if (id[8] != layout_version) {
    throw error(errc::version_mismatch,
                fmt::format("this unique id has layout {}, made by another version of Tandem",
                            std::to_integer<unsigned>(id[8])),
                "install the same version of Tandem on every host");
  }
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < 4; ++i)
    crc |= std::to_integer<std::uint32_t>(id[crc_at + i]) << (8 * i);
  meeting_point to;
  to.port = static_cast<std::uint16_t>(std::to_integer<unsigned>(id[10]) << 8 |
                                       std::to_integer<unsigned>(id[11]));
  const auto kind = std::to_integer<unsigned>(id[9]);
  if (crc != crc_of(id) || (kind != 4 && kind != 6) || to.port == 0) {
    throw error(errc::bad_input, "this unique id is damaged: its checksum is wrong",
                "all 128 bytes have to reach every rank unchanged");
  }
  if (kind == 4) {
    ip::address_v4::bytes_type bytes;
    std::memcpy(bytes.data(), &id[address_at], bytes.size());
    to.address = ip::address_v4(bytes);
  } else {
    ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), &id[address_at], bytes.size());
    to.address = ip::address_v6(bytes);
  }
  std::copy_n(&id[job_at], to.job.size(), to.job.begin());
  std::copy_n(&id[key_at], to.key.size(), to.key.begin());
  return to;
}

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

}  // namespace tandem::nccl_abi
