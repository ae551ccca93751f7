#pragma once

#include <memory>
#include <optional>
#include <tandem/device_watch.hpp>
#include <tandem/operation.hpp>

#include "devices/copier.hpp"
#include "protocol/session.hpp"

namespace tandem::devices {

class link;

/// False for null.
inline bool is_on_device(const operation* op) noexcept {
  return op != nullptr && op->view.kind != memory_kind::host;
}

/// How the payload of a frame travels.
enum class carriage : std::uint8_t {
  inside,     ///< behind its frame, in the same message of the inner channel
  message,    ///< as a message of its own on the flow of payloads, in the order of the frames
  placed,     ///< a copy engine here writes it into the peer's view
  reference,  ///< not at all: the peer's copy engine reads it where it lies
  shared,     ///< to pinned memory here, where the peer's copy engine reads it
};

/// Flag of a frame: its payload is a message of its own. One of no bytes, where some are due, says
/// that the sender could not read it.
constexpr std::uint16_t by_message = 2;
/// Flag of such a frame: a NIC takes the payload from where it lies, so that a view of a device
/// that NICs reach there gets it without a detour.
constexpr std::uint16_t by_nic = 8;

/// One frame on its way out, and what of it is with the inner channel or a copy engine.
struct departure {
  explicit departure(link& in, std::size_t words_bytes);

  link& of;
  protocol::outgoing out;
  std::unique_ptr<std::byte[]> words;  ///< the frame, and a payload inside
  operation header, payload;           ///< of the inner channel
  device_wait staged;
  copier* by = nullptr;          ///< null: the payload leaves from where it lies
  std::byte* slot = nullptr;     ///< of staging, where the payload is copied to
  departure* next = nullptr;     ///< whose payload follows
  unsigned parts = 0;            ///< that are not over: frame, payload
  bool has_left = true;          ///< all that is over has gone
  bool is_ready = false;         ///< its payload may go
  std::optional<error> failure;  ///< why the payload could not be read
};

/// One payload on its way in, or a copy into a view.
struct landing_piece {
  explicit landing_piece(link& in);

  link& of;
  protocol::landing where;
  bool is_known = false;  ///< the session has `where`
  operation payload;      ///< of the inner channel
  device_wait landed;
  copier* by = nullptr;       ///< null: it lands where it belongs
  std::byte* slot = nullptr;  ///< of staging
  operation* op = nullptr;    ///< pinned: its view is being filled
  landing_piece* next = nullptr;
};

/// Bytes that came before their receive, for a view that only a copy engine reaches.
struct fill_job {
  operation* op = nullptr;  ///< pinned
  mutable_view to;
  std::unique_ptr<std::byte[]> from;
  std::size_t done = 0;
};

/// A message of the flow of frames on its way in.
struct control_slot {
  link* of = nullptr;
  operation op;
  std::unique_ptr<std::byte[]> bytes;
  bool is_over = false;
};

}  // namespace tandem::devices
