#include "verbs/credits.hpp"

#include <algorithm>

#include "protocol/frame.hpp"

namespace tandem::verbs {

using protocol::put;
using protocol::take;

namespace {

bool is_much(std::uint32_t consumed, std::uint32_t reported, std::uint32_t all) noexcept {
  return consumed - reported >= std::max(all / 2, 1U);
}

}  // namespace

void encode(const word& from, std::span<std::byte, word_bytes> to) noexcept {
  put(to.data(), from.records);
  put(to.data() + 4, from.chunks);
  put(to.data() + 8, from.words);
  put(to.data() + 12, from.body_bytes);
}

word decode(std::span<const std::byte, word_bytes> from) noexcept {
  return {take<std::uint32_t>(from.data()), take<std::uint32_t>(from.data() + 4),
          take<std::uint32_t>(from.data() + 8), take<std::uint32_t>(from.data() + 12)};
}

/// Updates of the two queue pairs may overtake each other, so an older total may arrive later.
bool credits::hear(const word& theirs) noexcept {
  const auto move_on = [](std::uint32_t& taken, std::uint32_t total, std::uint32_t sent) {
    if (static_cast<std::int32_t>(total - sent) > 0) return false;
    if (static_cast<std::int32_t>(total - taken) > 0) taken = total;
    return true;
  };
  return move_on(taken_.records, theirs.records, sent_.records) &&
         move_on(taken_.chunks, theirs.chunks, sent_.chunks) &&
         move_on(taken_.words, theirs.words, sent_.words);
}

bool credits::chunk_came(std::uint32_t slot) noexcept {
  if (chunks_came_ - took_.chunks >= mine_.chunks || slot != chunks_came_ % mine_.chunks) {
    return false;
  }
  ++chunks_came_;
  return true;
}

bool credits::owes_word() const noexcept {
  return is_much(took_.records, said_.records, mine_.records) ||
         is_much(took_.chunks, said_.chunks, mine_.chunks) || owes_for_words();
}

bool credits::owes_for_words() const noexcept {
  return is_much(took_.words, said_.words, mine_.words);
}

}  // namespace tandem::verbs
