#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tandem/channel.hpp>
#include <tandem/memory.hpp>
#include <vector>

#pragma GCC visibility push(default)

namespace tandem {

class board;

/// One rank's connections to all ranks of a job. A channel to a peer is connected on first use.
/// Communicators are built on this interface and do not depend on the transport.
///
/// @par Failure  When a rank is lost, every channel of every rank's fabric fails with the same
///   error, which names the lost rank. `fail` propagates a failure of this rank in the same way.
/// @par Executor  One executor for the fabric, its channels and their completions.
class fabric {
 public:
  virtual ~fabric() { groups_->has_fabric = false; }
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual asio::any_io_executor get_executor() const noexcept = 0;
  /// The transport: "local", "tcp", "shm", "rails", "mixed".
  virtual std::string_view kind() const noexcept = 0;
  /// The transport of the channel to `peer`: `kind()`, except for a fabric that selects a transport
  /// per pair, which returns `kind()` until the channel exists. The same at both ends.
  /// @pre 0 <= peer < size(), peer != rank().
  virtual std::string_view kind_to(int /*peer*/) const noexcept { return kind(); }
  /// The data path between local memory of kind `here` and the peer's memory of kind `there`:
  /// "shm", "peer copies", "shared staging", "forwarding over tcp". Valid once a message of the
  /// peer has arrived; the same at both ends then.
  /// @pre as for `kind_to`.
  virtual std::string path_to(int peer, memory_kind /*here*/, memory_kind /*there*/) const {
    return std::string(kind_to(peer));
  }

  /// The connected channel to `peer`. The reference is valid for the lifetime of the fabric.
  /// @pre 0 <= peer < size(), peer != rank(). @par Errors `errc::unreachable`, `peer_lost`,
  /// `timed_out`.
  virtual asio::awaitable<std::reference_wrapper<channel>> to(int peer) = 0;
  /// The channel if it is already connected, else null: no suspension on the data path.
  virtual channel* find(int peer) noexcept = 0;

  /// True if views of this memory kind can be sent to and received from `peer`, also before they
  /// are connected. By default: the kinds of the channel, and host memory only until it exists.
  virtual bool carries(memory_kind kind, int peer) noexcept {
    if (kind == memory_kind::host) return true;
    const channel* const there = find(peer);
    if (there == nullptr) return false;
    const std::vector<memory_kind>& kinds = there->limits().kinds;
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  }

  /// Registers memory with the NICs of this fabric for zero-copy access (`region`). Costs pinning
  /// the pages once for each device. Memory that is not registered is copied, or registered for a
  /// single message if that is long enough to pay.
  /// @par Errors  None: what a NIC cannot register is copied; `region::describe` gives the reason.
  virtual region register_memory(mutable_view memory, dmabuf /*exported*/ = {}) {
    return {memory, nullptr};
  }

  /// Where `map_memory` of the other ranks finds this memory: zero unless all of it is in one
  /// `shm::shared_buffer`, and shared memory connects ranks.
  virtual memory_location locate_memory(const mutable_view& /*memory*/) { return {}; }
  /// Maps memory of this length that `locate_memory` has located on a peer, for loads and stores.
  /// Null, with a log line if that is unexpected, where the peer is not connected through shared
  /// memory. @par Cost  some tens of microseconds.
  virtual std::unique_ptr<const mapped_memory> map_memory(int /*peer*/,
                                                          const memory_location& /*at*/,
                                                          std::size_t /*bytes*/) {
    return nullptr;
  }

  /// Shared memory for short collectives of `members`, which include this rank and are connected.
  /// Every member calls it, the first member before the others. The first passes an empty
  /// `location` and receives in it what the others must pass to open the memory. Null, and a log
  /// line, if the memory cannot be shared or opened; check that all members have it.
  virtual std::shared_ptr<board> share_board(std::span<const int> /*members*/,
                                             std::string& /*location*/) {
    return nullptr;
  }

  /// Reports to every rank that this one has failed, and fails all local channels with `reason`.
  virtual void fail(const error& reason) noexcept = 0;
  /// Leaves the job with an orderly close. Never blocks.
  virtual void close() noexcept = 0;

  /// Group ids in use by this rank's communicators, one bit each: groups with a common rank must
  /// have different ids, or their messages would mix. Shared ownership, because a communicator's
  /// last call may end after the fabric.
  struct group_ids : std::bitset<4096> {
    bool has_fabric = true;  ///< false once the fabric was destroyed
  };
  const std::shared_ptr<group_ids>& groups() const noexcept { return groups_; }

 private:
  std::shared_ptr<group_ids> groups_ = std::make_shared<group_ids>();
};

}  // namespace tandem

#pragma GCC visibility pop
