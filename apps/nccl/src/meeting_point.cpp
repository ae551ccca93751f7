#include "meeting_point.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <tandem/detail/crc32c.hpp>
#include <tandem/error.hpp>

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

}  // namespace tandem::nccl_abi
