#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sealed/connection.hpp"

namespace tandem::sealed {

/// The byte stream of one connection's socket, which it does not own: plain or sealed. Never
/// blocks.
///
/// @par Cost  Plain: the system call. Sealed: a pass of AES-GCM over the bytes at each end, and
///   256 KiB of memory, 320 where records had to be opened aside.
class stream {
 public:
  /// @param with  empty: plain
  stream(int socket, const keys& with);
  ~stream();

  /// As ::sendmsg: the number of bytes taken, or -1 and `errno`. Taken bytes may be buffered: call
  /// `flush` when the socket is writable.
  ssize_t send(std::span<const iovec> parts);
  /// True: all taken bytes are in the socket. False: the socket is full or has failed.
  bool flush();
  bool has_unsent() const noexcept;
  /// Replaces `bytes`, the last ones of the stream, by what is to be written to the socket:
  /// buffered bytes first, then these, sealed. Nothing can be sent afterwards.
  void seal_last(std::vector<std::byte>& bytes);
  /// Bytes written to the socket, as on the network.
  std::uint64_t sent_bytes() const noexcept { return sent_bytes_; }

  /// As ::recvmsg: the number of bytes, 0 at the end, or -1 and `errno`: EBADMSG where bytes were
  /// received that the peer did not seal.
  ssize_t receive(std::span<const iovec> space);
  /// There is more to receive, even where the socket is not readable.
  bool holds_more() const noexcept;
  /// Bytes read from the socket, as on the network.
  std::uint64_t received_bytes() const noexcept { return received_bytes_; }
  /// The text for a failure of `receive`.
  std::string describe(int number) const;

 private:
  struct sealing;
  ssize_t receive_sealed(std::span<const iovec> space);

  const int socket_;
  std::unique_ptr<sealing> sealing_;  // null: plain
  std::uint64_t sent_bytes_ = 0, received_bytes_ = 0;
};

}  // namespace tandem::sealed
