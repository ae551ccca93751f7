#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <tandem/accelerator.hpp>
#include <vector>

#include "devices/peer_copies.hpp"

namespace tandem::devices {

/// The copy engines of one device, shared by all links of a fabric: a stream each way, which never
/// waits for the user's work, so that every copy that was started completes.
class copier {
 public:
  copier(const asio::any_io_executor& executor, accelerator& of);

  accelerator& of() const noexcept { return watch_.of(); }
  enum class copy_kind : std::uint8_t {
    to_host,
    to_device,
    to_peer,  ///< into the memory of another process or device; several in flight
    from_peer,
  };
  /// Starts a copy and completes `wait` when it is done. @par Errors thrown: `device_failed`; then
  /// nothing is being copied and `wait` is not completed.
  void copy(copy_kind which, void* to, const void* from, std::size_t bytes, device_wait& wait);
  /// A peer is about to read from the memory of this device (true), or has read it (false).
  void expect_reader(bool one_more) noexcept { peer_.expect_reader(one_more); }
  /// Blocks until no copy is in flight, for an executor that is destroyed with pending copies.
  void finish() noexcept;

 private:
  peer_copies peer_;
  device_watch watch_;
  const device_stream to_host_;
  const device_stream to_device_;
};

/// The copiers of a fabric, each created with the first view of its device.
class copiers {
 public:
  explicit copiers(asio::any_io_executor executor) : executor_(std::move(executor)) {}

  /// @pre the view's kind is not `host`. @par Errors thrown: `unsupported_memory`: there is no such
  /// device, and why; `device_failed`.
  copier& of(const const_view& view);
  /// The memory kinds that this machine has copy engines for, `host` included.
  static std::vector<memory_kind> kinds();

 private:
  const asio::any_io_executor executor_;
  std::vector<std::unique_ptr<copier>> all_;
};

}  // namespace tandem::devices
