#pragma once

#include "devices/copy_turns.hpp"

namespace tandem::devices {

/// Copies of one device to and from the memory of other processes and devices. Short ones do not
/// wait behind long ones: the engine shares its time among streams.
class peer_copies {
 public:
  peer_copies(const asio::any_io_executor& executor, accelerator& by);

  /// As `copier::copy`. What had to wait for its turn and fails then is told so.
  void copy(void* to, const void* from, std::size_t bytes, device_wait& wait);
  /// Blocks until nothing is being copied.
  void finish() noexcept;

 private:
  const std::shared_ptr<copy_turns> short_, long_;
  device_watch watch_;  // which waits in them, and goes away first
};

}  // namespace tandem::devices
