#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/session.hpp"
#include "sealed/stream.hpp"

namespace tandem::tcp {

/// Writes the frames of a session to a stream in batches; a small message and its header take one
/// system call.
class frame_writer {
 public:
  explicit frame_writer(protocol::session& from) noexcept : session_(from) {}

  /// Writes until the session has no more frames (true), or the socket is full or has failed
  /// (false).
  bool write_all(sealed::stream& to);
  /// A batch is half written: it holds views of operations.
  bool is_busy() const noexcept { return first_ < size_; }
  /// Unwritten bytes of a frame that has been begun; 0: the stream is at a frame boundary.
  std::size_t rest_bytes() const noexcept;
  /// Appends a copy of those bytes, so that the frame can be completed without the operation's
  /// view.
  void append_rest(std::vector<std::byte>& to) const;
  /// Drops the batch. Nothing can be written after half a frame.
  void drop() noexcept { first_ = size_ = first_done_bytes_ = 0; }

 private:
  static constexpr std::size_t batch_frames = 16;

  bool fill();
  bool write_batch(sealed::stream& to);
  void advance(std::size_t bytes);

  protocol::session& session_;
  std::array<protocol::outgoing_frame, batch_frames> batch_;
  std::array<protocol::wire_frame, batch_frames> headers_;
  std::size_t size_ = 0;
  std::size_t first_ = 0;
  std::size_t first_done_bytes_ = 0;  // of the first frame, header and payload
};

}  // namespace tandem::tcp
