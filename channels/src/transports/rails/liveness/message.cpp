#include "transports/rails/liveness/message.hpp"

#include <algorithm>
#include <cstring>
#include <tandem/detail/trust.hpp>

namespace tandem::rails::liveness {
namespace {

constexpr std::size_t signed_bytes = 28;
constexpr std::size_t tag_bytes = message_bytes - signed_bytes;
constexpr char magic[] = {'T', 'D', 'L', '1'};

template <class Number>
void put(std::byte*& at, Number value) {
  std::memcpy(at, &value, sizeof value);  // all supported processors are little-endian
  at += sizeof value;
}
template <class Number>
void get(const std::byte*& at, Number& value) {
  std::memcpy(&value, at, sizeof value);
  at += sizeof value;
}

}  // namespace

std::array<std::byte, message_bytes> encode(const message& what, const secret& key) {
  std::array<std::byte, message_bytes> bytes{};
  std::memcpy(bytes.data(), magic, sizeof magic);
  std::byte* at = bytes.data() + sizeof magic;
  put(at, what.kind);
  put(at, what.from);
  put(at, what.to);
  put(at, what.nonce);
  put(at, what.busy_ms);
  const trust::digest tag =
      trust::hmac_sha256(key.bytes(), {std::span(bytes).first<signed_bytes>()});
  std::copy_n(tag.begin(), tag_bytes, at);
  return bytes;
}

std::optional<message> decode(std::span<const std::byte> bytes, const secret& key) {
  if (bytes.size() != message_bytes || std::memcmp(bytes.data(), magic, sizeof magic) != 0) {
    return {};
  }
  const trust::digest tag = trust::hmac_sha256(key.bytes(), {bytes.first(signed_bytes)});
  const auto expected = std::span(tag).first<tag_bytes>();
  if (!trust::equal_in_constant_time(expected, bytes.subspan(signed_bytes))) return {};
  message found;
  const std::byte* at = bytes.data() + sizeof magic;
  get(at, found.kind);
  get(at, found.from);
  get(at, found.to);
  get(at, found.nonce);
  get(at, found.busy_ms);
  if (found.kind != message_kind::probe && found.kind != message_kind::answer) return {};
  return found;
}

}  // namespace tandem::rails::liveness
