#pragma once

#include <memory>
#include <optional>
#include <tandem/accelerator.hpp>
#include <tandem/channel.hpp>

#include "devices/copier.hpp"
#include "protocol/session.hpp"

namespace tandem::devices {

class link;

/// False for null.
inline bool is_on_device(const operation* op) noexcept {
  return op != nullptr && op->view.kind != memory_kind::host;
}

/// How the payload of a frame is transferred.
enum class transfer_method : std::uint8_t {
  inline_data,  ///< inline: after its frame, in the same message of the inner channel
  message,      ///< in a message of its own on the flow of payloads, in the order of the frames
  placed,       ///< a copy engine here writes it into the peer's view
  reference,    ///< the peer's copy engine reads it from the view
  shared,       ///< copied to shared staging here, from which the peer's copy engine reads it
};

/// Flag of a frame: its payload is in a message of its own. An empty message where bytes are
/// expected says that the sender could not read its payload.
constexpr std::uint16_t by_message = 2;
/// Flag of such a frame: a NIC reads the payload from the view, so that the receiver should give
/// the NIC its device view directly, if that is registered.
constexpr std::uint16_t by_nic = 8;

/// A frame being sent, and its operations on the inner channel and the copy engine.
struct in_flight_frame {
  explicit in_flight_frame(link& in, std::size_t encoded_bytes);

  link& of;
  protocol::outgoing_frame out;
  std::unique_ptr<std::byte[]> encoded;  ///< the frame, and an inline payload
  operation header, payload;             ///< on the inner channel
  device_wait staged;
  copier* by = nullptr;             ///< null: the payload is sent from the view
  std::byte* slot = nullptr;        ///< in staging, the target of the copy
  in_flight_frame* next = nullptr;  ///< next in the queue of payloads
  unsigned parts = 0;               ///< not complete: frame, payload
  bool is_sent = true;              ///< all completed parts were sent
  bool is_ready = false;            ///< its payload can be sent
  std::optional<error> failure;     ///< why the payload could not be read
};

/// A payload being received, or a copy into a view.
struct incoming_piece {
  explicit incoming_piece(link& in);

  link& of;
  protocol::incoming_payload where;
  bool is_known = false;  ///< `where` is registered with the session
  operation payload;      ///< on the inner channel
  device_wait landed;
  copier* by = nullptr;       ///< null: received straight into its target
  std::byte* slot = nullptr;  ///< in staging
  operation* op = nullptr;    ///< pinned: its view is being written
  incoming_piece* next = nullptr;
};

/// Bytes in host memory to be copied into a device view, such as a message that arrived before its
/// receive.
struct fill_job {
  operation* op = nullptr;  ///< pinned
  mutable_view to;
  std::unique_ptr<std::byte[]> from;
  std::size_t done = 0;
};

/// A posted receive on the flow of frames.
struct control_slot {
  link* of = nullptr;
  operation op;
  std::unique_ptr<std::byte[]> bytes;
  bool is_over = false;
};

}  // namespace tandem::devices
