#pragma once

#include <cstdint>
#include <tandem/channel.hpp>
#include <vector>

namespace tandem::protocol {

/// Permits a NIC of the peer to write into the view of a receive, over one lane in one epoch.
struct grant {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t epoch = 0;
  std::uint16_t lane = 0;
};
/// For one message.
constexpr std::size_t max_grants = 64;

/// Issues write grants for receives; implemented by the owner of the NICs. A granted view is
/// pinned: its operation may have ended, but is reported only when nothing can access the view any
/// more
/// (`session::unpin`).
class remote_write_grants {
 public:
  /// Appends the grants for the receive of a message of `message_bytes` to `grants`; none where the
  /// message has to be copied. If there are any, the operation is pinned once.
  virtual void grant_writes(operation& op, std::uint64_t message_bytes,
                            std::vector<grant>& grants) = 0;
  /// True while a NIC of the peer may still write to the view, as far as is known.
  virtual bool is_granted(const operation& op) const noexcept = 0;
  /// The grants have ended: the peer has written everything, has confirmed a revoke, or cannot use
  /// any of them any more.
  virtual void grants_ended(const operation& op) noexcept = 0;
  /// The operation has ended and nothing accesses its view: its registration may be released.
  virtual void view_released(operation& op) noexcept = 0;

 protected:
  ~remote_write_grants() = default;
};

}  // namespace tandem::protocol
