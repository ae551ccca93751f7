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
#include <type_traits>
#include <utility>

#include "transports/rails/nic/nic.hpp"

namespace tandem::rails {

/// Memory registered with a NIC, for the lifetime of this object.
struct registered_memory {
  virtual ~registered_memory() = default;
  std::uint32_t local_key = 0;   ///< lkey, for the NIC of this end
  std::uint32_t remote_key = 0;  ///< rkey, for the peer's NIC, where requested
};

/// An RDMA write from registered memory into the peer's registered memory.
struct placement {
  const_view from;
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
  std::uint64_t to = 0;     ///< the peer's address
  std::uint64_t token = 0;  ///< passed to `on_placed` once the NIC has read `from`
};

/// What is called once a lane can be read or written, on an object and for one of its lanes, both
/// of which it owns. Unlike a std::function it is made without an allocation.
class lane_handler {
 public:
  using function = void (*)(void* of, void* lane, error_code failure);
  lane_handler(std::shared_ptr<void> of, std::shared_ptr<void> lane, function run) noexcept
      : of_(std::move(of)), lane_(std::move(lane)), run_(run) {}
  /// Of anything that can be called, by an allocation.
  template <class Callable>
  requires std::is_invocable_v<Callable&, error_code> lane_handler(Callable call)
      : of_(std::make_shared<Callable>(std::move(call))),
        run_([](void* of, void*, error_code failure) { (*static_cast<Callable*>(of))(failure); }) {}

  void operator()(error_code failure) const { run_(of_.get(), lane_.get(), failure); }

 private:
  std::shared_ptr<void> of_, lane_;
  function run_;
};

/// The connection of a lane, TCP or RDMA: a non-blocking byte stream in both directions. Belongs to
/// one lane of one link and is used on the link's executor.
class lane_connection {
 public:
  using handler = lane_handler;
  using token_handler = std::function<void(std::uint64_t token)>;

  virtual ~lane_connection() = default;

  /// As ::sendmsg: the bytes accepted, or -1 and `errno`. The parts may be reused afterwards.
  virtual ssize_t send(std::span<const iovec> parts) = 0;
  /// True: all accepted bytes are with the kernel or the NIC. False: it would block.
  virtual bool flush() = 0;
  virtual bool has_unsent() const noexcept = 0;
  /// As ::recvmsg: the bytes received, 0 at the end of the stream, or -1 and `errno`, EAGAIN where
  /// nothing is available.
  virtual ssize_t receive(std::span<const iovec> buffers) = 0;
  /// More can be received without waiting, from data buffered here.
  virtual bool holds_more() const noexcept = 0;
  /// Bytes received so far, partial records included: grows while the peer is alive.
  virtual std::uint64_t received_bytes() const noexcept = 0;
  /// The text for a failure of `receive`.
  virtual std::string describe(int number) const = 0;
  /// Why the connection failed, where the loss was detected elsewhere first; empty: no reason of
  /// its own.
  virtual std::string failure_reason() { return {}; }

  /// Calls once there may be something to receive; with an error when the connection is closed.
  virtual void wait_read(handler on_readable) = 0;
  /// Calls once `flush` may make progress; with an error when the connection is closed.
  virtual void wait_write(handler on_writable) = 0;
  /// Limits what the kernel holds unsent; a connection with credits does not need it.
  virtual void bound_unsent(int /*bytes*/) {}
  /// @param reset  discards unsent bytes and resets the connection at once.
  virtual void close(bool reset) noexcept = 0;
  /// True where it uses this interface.
  virtual bool is_on(const nic& which) const = 0;
  /// True: the transport checks every byte end to end, so payloads need no checksums.
  virtual bool has_integrity_check() const noexcept { return false; }
  /// True: carries chunks only while no other lane is up.
  virtual bool is_standby() const noexcept { return false; }

  // RDMA.
  /// Connections of the same domain share registrations; null: no RDMA.
  virtual const void* domain() const noexcept { return nullptr; }
  /// A registration by which the NIC of this end reads this memory, or the peer's NIC writes it.
  /// Null: not possible, or copying costs less.
  virtual std::shared_ptr<const registered_memory> registration_for(mutable_view /*what*/,
                                                                    bool /*by_peer*/) {
    return nullptr;
  }
  /// True where `registration_for` succeeds without registering this memory alone.
  virtual bool is_zero_copy(const const_view& /*what*/) { return false; }
  /// Maximum size of one placement.
  virtual std::size_t max_placed_bytes() const noexcept { return 0; }
  /// Posts the RDMA write, and `head`, which the peer receives after it. False: the queue is full,
  /// or the connection has failed. Ordered with the bytes of `send`.
  virtual bool place(std::span<const std::byte> /*head*/, const placement& /*what*/) {
    return false;
  }
  /// Called for each completed placement; kept until quiesced, so it must not own the lane.
  virtual void on_placed(token_handler /*handler*/) {}
  /// After `close`: no NIC accesses memory of this end for this connection any more.
  virtual bool is_quiesced() const noexcept { return true; }
  /// Calls once when `is_quiesced` becomes true, within a bounded time; kept until then.
  virtual void on_quiesced(std::function<void()> /*handler*/) {}
};

}  // namespace tandem::rails
