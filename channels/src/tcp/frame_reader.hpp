#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "protocol/session.hpp"
#include "sealed/stream.hpp"

namespace tandem::tcp {

/// Bytes from a stream into a session: headers and small payloads through a staging buffer, larger
/// payloads straight into the view, with the next header behind them in the same system call.
class frame_reader {
 public:
  enum class outcome : std::uint8_t {
    more,     ///< there may be more to read
    drained,  ///< nothing more at present
    ended,    ///< the connection is gone: `why`
    broken,   ///< bytes that no correct peer sends: `why`
    goodbye,  ///< the peer closes in an orderly way
    gave_up,  ///< the peer closes because of an error; the session has not been told
  };

  explicit frame_reader(protocol::session& into) noexcept : session_(into) {}

  /// One `receive`, never blocking. After ended, broken, goodbye and gave_up, read no more.
  outcome read_some(sealed::stream& from);
  const std::string& why() const noexcept { return why_; }
  /// It ended because the peer's acknowledgements did not come: nobody knows more of that.
  bool is_silence() const noexcept { return is_silence_; }
  /// Forgets the payload in hand; the session does not know it any more either.
  void drop() noexcept { is_landing_ = false; }

 private:
  /// Small messages come whole in one call: half a ping-pong of 16 KiB over loopback takes 7.7 us
  /// in one and 9.4 in two. Of a longer one no more than this is copied, and less of the next.
  static constexpr std::size_t staging_bytes = 20 * 1024, staging_bytes_of_long = 8 * 1024;

  outcome place(std::size_t bytes);
  outcome parse_staged();
  outcome take_frame(const std::byte* at);
  void finish_landing();

  protocol::session& session_;
  std::array<std::byte, staging_bytes> staging_;
  std::size_t staged_ = 0;
  std::size_t most_staged_ = staging_bytes;
  protocol::landing landing_;
  bool is_landing_ = false;
  std::string why_;
  bool is_silence_ = false;
};

}  // namespace tandem::tcp
