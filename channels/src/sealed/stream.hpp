#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sealed/keys.hpp"

namespace tandem::sealed {

/// The bytes of one connection's socket, which it does not own: as they are, or sealed. Never
/// blocks.
///
/// @par Cost  As they are: the system call. Sealed: a pass of AES-GCM over the bytes at each end,
///   and 256 KiB of memory, 320 where records had to be opened aside.
class stream {
 public:
  /// @param with  empty: as they are
  stream(int socket, const keys& with);
  ~stream();

  /// As ::sendmsg: how many bytes were taken, or -1 and `errno`. What is taken may be waiting here:
  /// `flush` when the socket is writable.
  ssize_t send(std::span<const iovec> parts);
  /// True: the socket has all that was taken. False: it takes no more now, or is broken.
  bool flush();
  bool has_unsent() const noexcept;
  /// In place of what is waiting and of these last bytes of all, which follow it: what the socket
  /// is to be given. Nothing can be sent after.
  void seal_last(std::vector<std::byte>& words);
  /// What the socket has taken, as it was on the wire.
  std::uint64_t given_bytes() const noexcept { return given_bytes_; }

  /// As ::recvmsg: how many bytes there are, 0 at the end, or -1 and `errno`: EBADMSG where bytes
  /// came that the peer did not seal.
  ssize_t receive(std::span<const iovec> room);
  /// There is more to receive, whatever the socket says.
  bool holds_more() const noexcept;
  /// What the socket has given, as it was on the wire.
  std::uint64_t received_bytes() const noexcept { return received_bytes_; }
  /// A failure of `receive` in words.
  std::string describe(int number) const;

 private:
  struct sealing;
  ssize_t receive_sealed(std::span<const iovec> room);

  const int socket_;
  std::unique_ptr<sealing> sealing_;  // null: as they are
  std::uint64_t given_bytes_ = 0, received_bytes_ = 0;
};

}  // namespace tandem::sealed
