#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <tandem/accelerator.hpp>
#include <tandem/device_watch.hpp>
#include <vector>

#include "devices/peer_copies.hpp"

namespace tandem::devices {

/// The copy engines of one device, as all links of a fabric use them: a stream each way, which
/// waits for no work of the user's, so that what one link has begun always ends.
class copier {
 public:
  copier(const asio::any_io_executor& executor, accelerator& of);

  accelerator& of() const noexcept { return watch_.of(); }
  enum class way : std::uint8_t {
    to_host,
    to_device,
    to_peer,  ///< into the memory of another process or device; several at once
    from_peer,
  };
  /// Copies, and tells `wait` when that is done. @par Errors thrown: `device_failed`; then nothing
  /// is being copied and nobody is told.
  void copy(way which, void* to, const void* from, std::size_t bytes, device_wait& wait);
  /// A peer is about to read from the memory of this device, or has.
  void expect_reader(bool one_more) noexcept { peer_.expect_reader(one_more); }
  /// Blocks until no copy is under way, for an executor that goes away with some.
  void finish() noexcept;

 private:
  peer_copies peer_;
  device_watch watch_;
  const device_stream to_host_;
  const device_stream to_device_;
};

/// Those of a fabric, made when a view of their device first comes.
class copiers {
 public:
  explicit copiers(asio::any_io_executor executor) : executor_(std::move(executor)) {}

  /// @pre the view's kind is not `host`. @par Errors thrown: `unsupported_memory`: there is no such
  /// device, and why; `device_failed`.
  copier& of(const const_view& view);
  /// Which views this machine has copy engines for, `host` included.
  static std::vector<memory_kind> kinds();

 private:
  const asio::any_io_executor executor_;
  std::vector<std::unique_ptr<copier>> all_;
};

}  // namespace tandem::devices
