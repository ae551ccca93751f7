#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tandem/error.hpp>
#include <tandem/memory.hpp>

#include "rails/nic.hpp"

namespace tandem::rails {

/// Memory that a NIC reaches by itself, for as long as this lives.
struct reached_memory {
  virtual ~reached_memory() = default;
  std::uint32_t local_key = 0;  ///< for the NIC here
  std::uint32_t peer_key = 0;   ///< for the peer's, where it was asked for
};

/// Bytes that the NIC takes where they lie, and writes where they belong.
struct placement {
  const_view from;
  std::uint32_t local_key = 0;
  std::uint32_t peer_key = 0;
  std::uint64_t to = 0;     ///< the peer's address
  std::uint64_t token = 0;  ///< told when the NIC here reads `from` no more
};

/// The connection under a lane, of whatever kind: bytes in order, both ways, never blocking. It
/// belongs to one lane of one link and lives on the link's executor.
class wire {
 public:
  using handler = std::function<void(error_code)>;
  using token_handler = std::function<void(std::uint64_t token)>;

  virtual ~wire() = default;

  /// As ::sendmsg: how many bytes were taken, or -1 and `errno`. The parts may be reused then.
  virtual ssize_t send(std::span<const iovec> parts) = 0;
  /// True: all that was taken is with the kernel or the NIC. False: it takes no more now.
  virtual bool flush() = 0;
  virtual bool has_unsent() const noexcept = 0;
  /// As ::recvmsg: how many bytes there are, 0 at the end, or -1 and `errno`: EAGAIN where there is
  /// nothing now.
  virtual ssize_t receive(std::span<const iovec> buffers) = 0;
  /// There is more to receive, whatever `wait_read` would say.
  virtual bool holds_more() const noexcept = 0;
  /// What has come so far, whole records or not: it grows while the peer is there.
  virtual std::uint64_t received_bytes() const noexcept = 0;
  /// A failure of `receive` in words.
  virtual std::string describe(int number) const = 0;
  /// Why it is at its end, asked for again where somebody else has found out first; empty: no
  /// reason of its own.
  virtual std::string trouble() { return {}; }

  /// Calls once there may be something to receive; with an error when the wire is closed.
  virtual void wait_read(handler come) = 0;
  /// Calls once `flush` may get on; with an error when the wire is closed.
  virtual void wait_write(handler go_on) = 0;
  /// What may wait in the kernel unsent; a wire whose peer gives credits has no need of it.
  virtual void bound_unsent(int /*bytes*/) {}
  /// @param reset  takes back what is not yet sent, and tells the peer at once.
  virtual void close(bool reset) noexcept = 0;
  /// True where it runs over this interface.
  virtual bool is_on(const nic& which) const = 0;
  /// True: what carries it checks every byte from end to end, so payloads need no checksums.
  virtual bool guards_bytes() const noexcept { return false; }
  /// True: carries chunks only while no lane without it does.
  virtual bool stands_by() const noexcept { return false; }

  // What only a NIC that needs no processor has.
  /// Wires that say the same share what `reach` gives; null: no such NIC.
  virtual const void* domain() const noexcept { return nullptr; }
  /// Lets the NIC here read this memory, or the peer's write it. Null: it cannot, or copying costs
  /// less.
  virtual std::shared_ptr<const reached_memory> reach(mutable_view /*what*/, bool /*by_peer*/) {
    return nullptr;
  }
  /// `reach` gives it, without registering anything for it.
  virtual bool reaches(const const_view& /*what*/) { return false; }
  /// Of one placement.
  virtual std::size_t most_placed_bytes() const noexcept { return 0; }
  /// Has the bytes written, and `head` received after them; false: no room now, or broken. Neither
  /// before what `send` took nor after what it takes next.
  virtual bool place(std::span<const std::byte> /*head*/, const placement& /*what*/) {
    return false;
  }
  /// Who hears of placements; kept until the wire is quiet, so it owns nothing of the lane.
  virtual void on_placed(token_handler /*handler*/) {}
  /// After `close`: nothing that was under way can change memory here any more, nor read it.
  virtual bool is_quiet() const noexcept { return true; }
  /// Calls once when that is so: soon, in a bounded time. What it owns is kept until then.
  virtual void when_quiet(std::function<void()> /*handler*/) {}
};

}  // namespace tandem::rails
