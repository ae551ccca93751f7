#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tandem/operation.hpp>

namespace tandem::rails {

/// Who has the NICs of the lanes, as the core sees them: registers views with them.
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

 protected:
  ~keeper() = default;
};

}  // namespace tandem::rails
