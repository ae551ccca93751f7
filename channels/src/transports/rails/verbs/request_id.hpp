#pragma once

#include <cstdint>

namespace tandem::verbs {

enum class request_kind : std::uint8_t { record_in, update_in, data_out, update_out };

/// Identifies a posted work request in its completion.
struct request_id {
  request_kind what = request_kind::record_in;
  std::uint32_t slot = 0;        ///< 24 bits
  std::uint32_t generation = 0;  ///< how often the slot was posted; of a send its number

  bool is_receive() const noexcept {
    return what == request_kind::record_in || what == request_kind::update_in;
  }
  bool is_of_data_pair() const noexcept {
    return what == request_kind::record_in || what == request_kind::data_out;
  }
};

constexpr std::uint64_t encode(const request_id& from) noexcept {
  return std::uint64_t{static_cast<std::uint8_t>(from.what)} << 56 |
         std::uint64_t{from.slot & 0xffffff} << 32 | from.generation;
}
constexpr request_id decode_request_id(std::uint64_t from) noexcept {
  return {static_cast<request_kind>(from >> 56), static_cast<std::uint32_t>(from >> 32 & 0xffffff),
          static_cast<std::uint32_t>(from)};
}

}  // namespace tandem::verbs
