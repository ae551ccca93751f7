#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "protocol/session.hpp"
#include "sealed/stream.hpp"

namespace tandem::tcp {

/// Feeds the bytes of a stream to a session: headers and small payloads through a staging buffer,
/// larger payloads directly into the view, together with the next header in the same system call.
class frame_reader {
 public:
  enum class outcome : std::uint8_t {
    more,                ///< there may be more to read
    drained,             ///< nothing more at present
    ended,               ///< the connection has ended: `why`
    protocol_violation,  ///< the peer violated the protocol: `why`
    close,               ///< the peer has closed the channel
    peer_failed,         ///< the peer has closed because of an error; the session does not know yet
  };

  explicit frame_reader(protocol::session& into) noexcept : session_(into) {}

  /// One `receive`, never blocking. To be called only until the result is neither `more` nor
  /// `drained`.
  outcome read_some(sealed::stream& from);
  const std::string& why() const noexcept { return why_; }
  /// The connection ended because acknowledgements of the peer were missing (ETIMEDOUT).
  bool is_ack_timeout() const noexcept { return is_ack_timeout_; }
  /// Drops the current payload, which the session has dropped, too.
  void drop() noexcept { receiving_payload_ = false; }

 private:
  /// Small messages arrive complete in one call: half a ping-pong of 16 KiB over loopback takes 7.7
  /// us with one call and 9.4 with two. After a longer one less is staged, as it would be copied.
  static constexpr std::size_t staging_bytes = 20 * 1024, staging_bytes_of_long = 8 * 1024;

  outcome consume(std::size_t bytes);
  outcome parse_staged();
  outcome take_frame(const std::byte* at);
  void finish_payload();

  protocol::session& session_;
  std::array<std::byte, staging_bytes> staging_;
  std::size_t staged_ = 0;
  std::size_t max_staged_ = staging_bytes;
  protocol::incoming_payload payload_;
  bool receiving_payload_ = false;
  std::string why_;
  bool is_ack_timeout_ = false;
};

}  // namespace tandem::tcp
