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

/// A reference in flight: memory that the peer reads, which may have to be staged first, or a copy
/// that an engine here writes into the peer's view.
struct referral {
  referral(link& in, std::uint32_t name);

  link& of;
  const std::uint32_t serial;
  protocol::outgoing out;
  std::array<std::byte, protocol::frame_bytes + reference_bytes> words{};
  operation header;         ///< of the inner channel
  bool has_left = true;     ///< no header in flight
  operation* op = nullptr;  ///< pinned until all bytes have been copied; null: they have
  shared_place at;
  device_wait staged;
  copier* by = nullptr;                ///< copies to `slot`, or to the peer
  copier* read_from = nullptr;         ///< of the device that the peer reads
  std::byte* slot = nullptr;           ///< in staging, read by the peer; null: it reads the view
  std::shared_ptr<const void> mapped;  ///< the peer's memory, while it is written
  bool is_staging = false;             ///< the copy of `by` is in flight
  bool is_placed = false;              ///< `by` writes into the peer's view
};

/// A control message in flight.
struct said_note {
  explicit said_note(link& in);

  link& of;
  std::array<std::byte, note_bytes> words{};
  operation op;
};

/// A payload that is read by one reference.
struct pull {
  explicit pull(link& in);
  std::uint64_t bytes() const noexcept { return where.header.payload_bytes; }

  link& of;
  reference what;
  protocol::landing where;
  bool is_known = false;  ///< `where` is registered with the session
  imports::source from;
  copier* by = nullptr;    ///< reads the peer's memory
  copier* into = nullptr;  ///< copies from the slot to the view, where `by` cannot write it
  device_wait landed;
  operation* op = nullptr;     ///< pinned: its view is being written
  std::byte* slot = nullptr;   ///< in staging, for a target that `by` cannot write
  std::uint64_t done = 0;      ///< bytes that have passed a slot
  std::uint64_t piece = 0;     ///< bytes in the slot
  bool is_second = false;      ///< the copy in flight is from the slot to the view
  std::optional<error> broke;  ///< why the read failed
};

}  // namespace tandem::devices
