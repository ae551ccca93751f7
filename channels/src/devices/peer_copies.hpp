#pragma once

#include "devices/copy_turns.hpp"

namespace tandem::devices {

/// Copies of one device to and from the memory of other processes and devices. Short ones, and
/// whoever reads, do not wait behind long ones for longer than what is under way when they come
/// (`copy_turns`), and what is written waits for nothing that is read: those are two engines.
class peer_copies {
 public:
  peer_copies(const asio::any_io_executor& executor, accelerator& by);

  enum class direction : std::uint8_t { written, read };
  /// As `copier::copy`. What had to wait for its turn and fails then is told so. @pre bytes > 0
  void copy(direction where, void* to, const void* from, std::size_t bytes, device_wait& wait);
  /// A peer is about to read from this device, or has.
  void expect_reader(bool one_more) noexcept;
  /// Some copy between this device and the host has been asked for: what is written to peers and
  /// what is read by the host share an engine, and so do what is read from them and what comes from
  /// the host.
  void meet_host(direction where) noexcept;
  /// Blocks until nothing is being copied.
  void finish() noexcept;

 private:
  struct engine {
    engine(device_watch& watch, const asio::any_io_executor& executor);
    void meet_reader() noexcept;
    void finish() noexcept;

    const std::shared_ptr<copy_turns> short_, long_;
  };

  engine written_, read_;
  device_watch watch_;  // which waits in them, and goes away first
};

}  // namespace tandem::devices
