#pragma once

#include <cstdint>
#include <tandem/operation.hpp>
#include <vector>

namespace tandem::protocol {

/// A way for a NIC of the peer into the view of a receive: over this lane while it has this epoch.
struct grant {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t epoch = 0;
  std::uint16_t lane = 0;
};
/// Of one message.
constexpr std::size_t most_grants = 64;

/// Who has the NICs, as a session sees it. A view that they may touch is pinned: its operation may
/// be over, and is told only when nothing can touch the view any more (`session::unpin`).
class lender {
 public:
  /// The receive for a message of so many bytes is there: the ways by which the peer may write it
  /// in place, none where it has to be copied. With any, the operation is pinned once.
  virtual void lend(operation& op, std::uint64_t message_bytes, std::vector<grant>& ways) = 0;
  /// May a NIC of the peer still write there, as far as is known?
  virtual bool is_lent(const operation& op) const noexcept = 0;
  /// None does: the peer has written everything, or says that it will not, or all ways are closed.
  virtual void returned(const operation& op) noexcept = 0;
  /// It is over and nothing touches its view: what was registered for it may go.
  virtual void settled(operation& op) noexcept = 0;

 protected:
  ~lender() = default;
};

}  // namespace tandem::protocol
