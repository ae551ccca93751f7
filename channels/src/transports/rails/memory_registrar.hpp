#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tandem/channel.hpp>

namespace tandem::rails {

/// Access of the core to the NICs of the lanes: registers views with them, and copies views that
/// the CPU cannot access for lanes without such a NIC.
class memory_registrar {
 public:
  /// The remote key by which the peer's NIC may write the first `bytes` of the view over this lane,
  /// and nothing else. None: that NIC cannot, or copying costs less.
  virtual std::optional<std::uint32_t> register_for_peer(std::uint16_t lane, operation& op,
                                                         std::uint64_t bytes) = 0;
  /// The local key by which this end's NIC reads the view, `at_once` bytes of it in one request.
  virtual std::optional<std::uint32_t> register_for_read(std::uint16_t lane, operation& op,
                                                         std::size_t at_once) = 0;
  /// Drops what was registered for this operation alone.
  virtual void deregister(operation& op) noexcept = 0;

  /// Copies a view that the CPU cannot access to host memory; blocks. False: the device has failed,
  /// which ends the channel.
  virtual bool fetch(const const_view& from, std::byte* to) noexcept = 0;
  /// Copies host memory to such a view; blocks. @par Errors thrown: `device_failed`.
  virtual void store(const std::byte* from, const mutable_view& to) = 0;

 protected:
  ~memory_registrar() = default;
};

}  // namespace tandem::rails
