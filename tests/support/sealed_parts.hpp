#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "sealed/record.hpp"

namespace tandem::test {

using bytes = std::vector<std::byte>;

inline secret some_key(std::string_view text = "0123456789abcdef0123456789abcdef") {
  return secret(text);
}

inline std::span<const std::byte> of_text(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Memory in parts of random lengths, some of them empty.
inline std::vector<iovec> in_parts(std::span<const std::byte> memory, std::mt19937_64& random,
                                   std::size_t longest = 20'000) {
  std::vector<iovec> parts;
  auto* const first = const_cast<std::byte*>(memory.data());
  for (std::size_t at = 0; at < memory.size();) {
    const std::size_t most = random() % 2 == 0 ? 40 : longest;
    const std::size_t n = std::min<std::size_t>(random() % (most + 1), memory.size() - at);
    parts.push_back({first + at, n});
    at += n;
  }
  return parts;
}

inline bytes seal(sealed::sealer& with, std::span<const std::byte> text) {
  const iovec all{const_cast<std::byte*>(text.data()), text.size()};
  sealed::cursor from(std::span(&all, 1));
  bytes record(text.size() + sealed::overhead_bytes);
  with.seal(from, text.size(), record.data());
  return record;
}

/// False: it does not open. `into` holds what was written nevertheless.
inline bool open(sealed::opener& with, std::span<const std::byte> record, bytes& into) {
  into.assign(record.size() - sealed::overhead_bytes, std::byte{0x55});
  const iovec all{into.data(), into.size()};
  sealed::cursor to(std::span(&all, 1));
  return with.open(record, to);
}

}  // namespace tandem::test
