#pragma once

#include <array>
#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "abi.hpp"

namespace tandem::nccl_abi {

namespace asio = boost::asio;

/// Where the ranks of a communicator meet, and the secret that they have in common: what a unique
/// id contains. A process that can read the id can join the job.
///
///   bytes | contents
///   0-7   | "tandemid"
///   8     | version of this layout, 1
///   9     | 4 or 6: the kind of address
///   10-11 | port, most significant byte first
///   12-27 | address; IPv4 in the first four
///   28-43 | job, random
///   44-75 | key, random
///   76-79 | CRC32C of all before, least significant byte first
///   80-   | zero
struct meeting_point {
  asio::ip::address address;
  std::uint16_t port = 0;
  std::array<std::byte, 16> job{};
  std::array<std::byte, 32> key{};

  /// "9f86d081884c7d65...": the name of the job.
  std::string job_text() const;
  std::string key_text() const;
};

unique_id encode(const meeting_point& from) noexcept;
/// @par Errors `errc::bad_input`: an id that Tandem has not made, as where one rank has loaded the
///   vendor's own library; `errc::version_mismatch`.
meeting_point decode(const unique_id& from);

}  // namespace tandem::nccl_abi
