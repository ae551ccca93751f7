#pragma once

#include <algorithm>
#include <bitset>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tandem/board.hpp>
#include <tandem/channel.hpp>
#include <tandem/region.hpp>

namespace tandem {

/// All ranks of a job as seen by one of them: gives the channel to a peer, made when first asked
/// for. Communicators stand on this and know no kind of channel.
///
/// @par Failure  When a rank is lost, every channel of every rank's fabric fails with the same
/// error, which
///   names the lost rank. `fail` spreads a failure of this rank in the same way.
/// @par Executor  One executor for the fabric, its channels and their completions.
class fabric {
 public:
  virtual ~fabric() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual asio::any_io_executor get_executor() const noexcept = 0;
  /// What it is, in a word: "local", "tcp", "shm", "rails", "mixed".
  virtual std::string_view kind() const noexcept = 0;
  /// What carries the messages to `peer`, once there is a channel: `kind()`, but for a fabric that
  /// chooses for each pair; that one says `kind()` until then. Both ends of a channel say the same.
  /// @pre 0 <= peer < size(), peer != rank().
  virtual std::string_view kind_to(int /*peer*/) const noexcept { return kind(); }
  /// How messages travel between memory of these kinds, `here` and of the peer: "shm", "peer
  /// copies", "shared staging", "forwarding over tcp". Known when a message of the peer has come;
  /// both ends say the same then.
  /// @pre as `kind_to`.
  virtual std::string way_to(int peer, memory_kind /*here*/, memory_kind /*there*/) const {
    return std::string(kind_to(peer));
  }

  /// The channel to `peer`, connected. The reference lives as long as the fabric.
  /// @pre 0 <= peer < size(), peer != rank(). @par Errors `errc::unreachable`, `peer_lost`,
  /// `timed_out`.
  virtual asio::awaitable<std::reference_wrapper<channel>> to(int peer) = 0;
  /// The same if it is already there, else null: no suspension on the data path.
  virtual channel* find(int peer) noexcept = 0;

  /// True where views of this kind may be sent to `peer` and received from it, also before there is
  /// a channel. By itself a fabric says what the channel that is there does, and until then: host
  /// memory.
  virtual bool carries(memory_kind kind, int peer) noexcept {
    if (kind == memory_kind::host) return true;
    const channel* const there = find(peer);
    if (there == nullptr) return false;
    const std::vector<memory_kind>& kinds = there->limits().kinds;
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  }

  /// Lets the NICs of this fabric read and write this memory without copies (`region`). Costs what
  /// pinning its pages costs, once for each device; memory that is not registered is copied, or
  /// registered for one message where it is long enough for that to pay.
  /// @par Errors none: what a NIC cannot register is copied, and `region::describe` says why.
  virtual region register_memory(mutable_view memory, dmabuf /*exported*/ = {}) {
    return {memory, nullptr};
  }

  /// Memory that these ranks, one of which is this one, share for short collectives. Each of them
  /// calls it, in any order but the first of them before the others; they are connected. `place` is
  /// empty for the first, which says there where the others find what it has made. Null, and a line
  /// in the log: they can share none, or it could not be opened; ask whether all of them have it.
  virtual std::shared_ptr<board> share_board(std::span<const int> /*members*/,
                                             std::string& /*place*/) {
    return nullptr;
  }

  /// Tells every rank that this one cannot go on, and fails all channels here with `reason`.
  virtual void fail(const error& reason) noexcept = 0;
  /// Leaves the job in an orderly way. Never blocks.
  virtual void close() noexcept = 0;

  /// Which ids of groups this rank's communicators use, by bit: groups with a rank in common never
  /// share one, or their messages would mix. Kept by the communicators, whose last call may end
  /// after the fabric.
  using group_ids = std::bitset<4096>;
  const std::shared_ptr<group_ids>& groups() const noexcept { return groups_; }

 private:
  std::shared_ptr<group_ids> groups_ = std::make_shared<group_ids>();
};

}  // namespace tandem
