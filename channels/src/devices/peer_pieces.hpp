#pragma once

#include <array>
#include <optional>
#include <tandem/device_watch.hpp>
#include <tandem/operation.hpp>

#include "devices/copier.hpp"
#include "devices/imports.hpp"
#include "devices/reference.hpp"
#include "protocol/session.hpp"

namespace tandem::devices {

class link;

/// One reference on its way: memory that the peer reads by it, which may still have to be filled,
/// or what a copy engine here writes into the peer's view.
struct referral {
  referral(link& in, std::uint32_t name);

  link& of;
  const std::uint32_t serial;
  protocol::outgoing out;
  std::array<std::byte, protocol::frame_bytes + reference_bytes> words{};
  operation header;         ///< of the inner channel
  bool has_left = true;     ///< no header is under way
  operation* op = nullptr;  ///< pinned, until all has been moved; null: it has
  shared_place at;
  device_wait staged;
  copier* by = nullptr;                ///< which brings it to `slot`, or to the peer
  copier* read_from = nullptr;         ///< whose device the peer reads
  std::byte* slot = nullptr;           ///< of staging that the peer reads; null: it reads the view
  std::shared_ptr<const void> mapped;  ///< the peer's memory, while it is written
  bool is_staging = false;             ///< that copy is under way
  bool is_placed = false;              ///< it is that into the peer's view
};

/// A note on its way.
struct said_note {
  explicit said_note(link& in);

  link& of;
  std::array<std::byte, note_bytes> words{};
  operation op;
};

/// What is read by one reference.
struct pull {
  explicit pull(link& in);
  std::uint64_t bytes() const noexcept { return where.header.payload_bytes; }

  link& of;
  reference what;
  protocol::landing where;
  bool is_known = false;  ///< the session has `where`
  imports::source from;
  copier* by = nullptr;    ///< which reads
  copier* into = nullptr;  ///< which brings to its view what `by` could not
  device_wait landed;
  operation* op = nullptr;     ///< pinned: its view is being filled
  std::byte* slot = nullptr;   ///< of staging, on the way to where `by` does not reach
  std::uint64_t done = 0;      ///< bytes that have been through a slot
  std::uint64_t piece = 0;     ///< that are in it
  bool is_second = false;      ///< the copy is that out of the slot
  std::optional<error> broke;  ///< why it could not be read
};

}  // namespace tandem::devices
