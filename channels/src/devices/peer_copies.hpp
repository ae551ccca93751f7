#pragma once

#include "devices/copy_scheduler.hpp"

namespace tandem::devices {

/// Copies of one device to and from the memory of other processes and devices. Short copies and
/// readers wait behind long ones only for what is in flight when they come (`copy_scheduler`).
/// Writes never wait for reads: they use different engines.
class peer_copies {
 public:
  peer_copies(const asio::any_io_executor& executor, accelerator& by);

  enum class direction : std::uint8_t { written, read };
  /// As `copier::copy`. A queued copy that fails completes `wait` with the error. @pre bytes > 0
  void copy(direction where, void* to, const void* from, std::size_t bytes, device_wait& wait);
  /// A peer is about to read from this device (true), or has read (false).
  void expect_reader(bool one_more) noexcept;
  /// A copy between this device and the host has been submitted: copies to peers and to the host
  /// share an engine, and so do copies from peers and from the host.
  void note_host_copy(direction where) noexcept;
  /// Blocks until nothing is being copied.
  void finish() noexcept;

 private:
  struct engine {
    engine(device_watch& watch, const asio::any_io_executor& executor);
    void note_reader() noexcept;
    void finish() noexcept;

    const std::shared_ptr<copy_scheduler> short_, long_;
  };

  engine written_, read_;
  device_watch watch_;  // holds waits of the engines, and is destroyed before them
};

}  // namespace tandem::devices
