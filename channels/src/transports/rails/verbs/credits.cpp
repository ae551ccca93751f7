#include "transports/rails/verbs/credits.hpp"

#include <algorithm>

#include "protocol/frame.hpp"

namespace tandem::verbs {

using protocol::put;
using protocol::take;

namespace {

bool is_half_used(std::uint32_t consumed, std::uint32_t reported, std::uint32_t all) noexcept {
  return consumed - reported >= std::max(all / 2, 1U);
}

}  // namespace

void encode(const credit_update& from, std::span<std::byte, credit_update_bytes> to) noexcept {
  put(to.data(), from.records);
  put(to.data() + 4, from.chunks);
  put(to.data() + 8, from.updates);
  put(to.data() + 12, from.body_bytes);
}

credit_update decode(std::span<const std::byte, credit_update_bytes> from) noexcept {
  return {take<std::uint32_t>(from.data()), take<std::uint32_t>(from.data() + 4),
          take<std::uint32_t>(from.data() + 8), take<std::uint32_t>(from.data() + 12)};
}

/// Updates of the two queue pairs may overtake each other, so an older total may arrive later.
bool credits::apply_update(const credit_update& remote) noexcept {
  const auto move_on = [](std::uint32_t& taken, std::uint32_t total, std::uint32_t sent) {
    if (static_cast<std::int32_t>(total - sent) > 0) return false;
    if (static_cast<std::int32_t>(total - taken) > 0) taken = total;
    return true;
  };
  return move_on(peer_consumed_.records, remote.records, sent_.records) &&
         move_on(peer_consumed_.chunks, remote.chunks, sent_.chunks) &&
         move_on(peer_consumed_.updates, remote.updates, sent_.updates);
}

bool credits::chunk_arrived(std::uint32_t slot) noexcept {
  if (chunks_arrived_ - consumed_.chunks >= local_.chunks ||
      slot != chunks_arrived_ % local_.chunks) {
    return false;
  }
  ++chunks_arrived_;
  return true;
}

bool credits::update_due() const noexcept {
  return is_half_used(consumed_.records, reported_.records, local_.records) ||
         is_half_used(consumed_.chunks, reported_.chunks, local_.chunks) ||
         update_due_for_updates();
}

bool credits::update_due_for_updates() const noexcept {
  return is_half_used(consumed_.updates, reported_.updates, local_.updates);
}

}  // namespace tandem::verbs
