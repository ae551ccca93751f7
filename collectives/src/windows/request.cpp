#include "request.hpp"

namespace tandem::detail {
namespace {

constexpr std::size_t field_bytes = 8;

void put_number(window_request::wire& to, std::size_t field, std::uint64_t value) noexcept {
  for (std::size_t i = 0; i < field_bytes; ++i) {
    to[field * field_bytes + i] = static_cast<std::byte>(value >> (8 * i));
  }
}

std::uint64_t number_at(const window_request::wire& from, std::size_t field) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < field_bytes; ++i) {
    value |= std::to_integer<std::uint64_t>(from[field * field_bytes + i]) << (8 * i);
  }
  return value;
}

}  // namespace

window_request::wire window_request::encode() const noexcept {
  wire to{};
  put_number(to, 0, static_cast<std::uint64_t>(what));
  put_number(to, 1, number);
  put_number(to, 2, offset);
  put_number(to, 3, bytes);
  put_number(to, 4, value);
  return to;
}

std::optional<window_request> window_request::decode(const wire& from) noexcept {
  const std::uint64_t what = number_at(from, 0);
  if (what < static_cast<std::uint64_t>(kind::put) ||
      what > static_cast<std::uint64_t>(kind::notify)) {
    return {};
  }
  return window_request{static_cast<kind>(what), number_at(from, 1), number_at(from, 2),
                        number_at(from, 3), number_at(from, 4)};
}

}  // namespace tandem::detail
