#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/frame.hpp"

namespace tandem::protocol {

struct unexpected_message;

/// The destination of one frame's payload while it is being received. The reader writes to `target`
/// from offset `received` on. Where `target` is null, it discards the bytes; a cancelled receive
/// may set it to null at any time.
struct incoming_payload {
  frame header;
  std::byte* target = nullptr;
  std::size_t received = 0;
  operation* op = nullptr;              // the receive whose view is filled directly
  unexpected_message* entry = nullptr;  // or the buffer of an unexpected message

  /// The length of the message that this payload is a part of.
  std::size_t message_bytes() const noexcept {
    return op != nullptr ? op->total_bytes : header.payload_bytes;
  }
};

/// The payloads of one end that are being received.
class open_payloads {
 public:
  /// `where` must stay valid until `close` or `drop_all`.
  void open(incoming_payload& where) { all_.push_back(&where); }
  /// Many may be open at once, and usually the oldest ends first.
  void close(const incoming_payload& where) noexcept {
    const auto at = std::find(all_.begin(), all_.end(), &where);
    if (at != all_.end()) all_.erase(at);
  }
  /// The rest of the payloads of this receive is discarded.
  void discard_rest(const operation& op) noexcept {
    for (incoming_payload* each : all_) {
      if (each->op != &op) continue;
      each->op = nullptr;
      each->target = nullptr;
    }
  }
  void drop_all() noexcept {
    for (incoming_payload* each : all_) *each = {};
    all_.clear();
  }
  /// Bytes of a message in payloads that are open.
  std::uint64_t bytes_of(std::uint64_t message_id) const noexcept {
    std::uint64_t bytes = 0;
    for (const incoming_payload* each : all_) {
      if (each->header.message_id == message_id) bytes += each->header.payload_bytes;
    }
    return bytes;
  }

 private:
  std::vector<incoming_payload*> all_;
};

}  // namespace tandem::protocol
