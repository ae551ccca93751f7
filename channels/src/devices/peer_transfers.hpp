#pragma once

#include <array>
#include <optional>
#include <tandem/accelerator.hpp>
#include <tandem/channel.hpp>

#include "devices/copier.hpp"
#include "devices/imports.hpp"
#include "devices/reference.hpp"
#include "protocol/session.hpp"

namespace tandem::devices {

class link;

/// A reference in flight: memory that the peer reads, which may have to be staged first, or a copy
/// that an engine here writes into the peer's view.
struct read_request {
  read_request(link& in, std::uint32_t name);

  link& of;
  const std::uint32_t serial;
  protocol::outgoing_frame out;
  std::array<std::byte, protocol::frame_bytes + reference_bytes> encoded{};
  operation header;         ///< of the inner channel
  bool is_sent = true;      ///< no header in flight
  operation* op = nullptr;  ///< pinned until all bytes have been copied; null: they have
  shared_location at;
  device_wait staged;
  copier* by = nullptr;                ///< copies to `slot`, or to the peer
  copier* read_from = nullptr;         ///< of the device that the peer reads
  std::byte* slot = nullptr;           ///< in staging, read by the peer; null: it reads the view
  std::shared_ptr<const void> mapped;  ///< the peer's memory, while it is written
  bool is_staging = false;             ///< the copy of `by` is in flight
  bool is_placed = false;              ///< `by` writes into the peer's view
};

/// A control message in flight.
struct control_send {
  explicit control_send(link& in);

  link& of;
  std::array<std::byte, control_message_bytes> encoded{};
  operation op;
};

/// A payload that is read by one reference.
struct pull {
  explicit pull(link& in);
  std::uint64_t bytes() const noexcept { return where.header.payload_bytes; }

  link& of;
  reference what;
  protocol::incoming_payload where;
  bool is_known = false;  ///< `where` is registered with the session
  imports::source from;
  copier* by = nullptr;    ///< reads the peer's memory
  copier* into = nullptr;  ///< copies from the slot to the view, where `by` cannot write it
  device_wait landed;
  operation* op = nullptr;       ///< pinned: its view is being written
  std::byte* slot = nullptr;     ///< in staging, for a target that `by` cannot write
  std::uint64_t done = 0;        ///< bytes that have passed a slot
  std::uint64_t piece = 0;       ///< bytes in the slot
  bool is_second_copy = false;   ///< the copy in flight is from the slot to the view
  std::optional<error> failure;  ///< why the read failed
};

}  // namespace tandem::devices
