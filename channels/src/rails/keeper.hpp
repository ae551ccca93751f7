#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tandem/operation.hpp>

namespace tandem::rails {

/// Who has the NICs of the lanes, as the core sees them: registers views with them, and brings the
/// bytes of views that no processor reaches to lanes without such a NIC.
class keeper {
 public:
  /// The key by which the peer's NIC may write the first `bytes` of the view over this lane, and
  /// nothing else. None: that NIC cannot, or copying costs less.
  virtual std::optional<std::uint32_t> let_peer_write(std::uint16_t lane, operation& op,
                                                      std::uint64_t bytes) = 0;
  /// The key by which this end's NIC reads the view, `at_once` bytes of it in one request.
  virtual std::optional<std::uint32_t> let_nic_read(std::uint16_t lane, operation& op,
                                                    std::size_t at_once) = 0;
  /// What was registered for this operation alone is not any more.
  virtual void let_go(operation& op) noexcept = 0;

  /// Bytes of a view that no processor reaches, to host memory; blocks meanwhile. False: the device
  /// has failed, and the channel is at its end.
  virtual bool fetch(const const_view& from, std::byte* to) noexcept = 0;
  /// And the other way. @par Errors thrown: `device_failed`.
  virtual void store(const std::byte* from, const mutable_view& to) = 0;

 protected:
  ~keeper() = default;
};

}  // namespace tandem::rails
