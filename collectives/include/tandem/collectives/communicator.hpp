#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <tandem/fabric.hpp>
#include <tandem/memory.hpp>
#include <tandem/settings.hpp>
#include <vector>

namespace tandem {

namespace asio = boost::asio;

class plan;

namespace detail {
class group;
}

/// A numbered group of ranks of one job that talk to each other: the whole job, a pipeline, the
/// replicas of a stage.
///
/// Ranks in its calls count within the group. Everything travels on the fabric's channels, on flows
/// that only this group uses, so groups that share a pair of ranks never mix:
///
///   bits 31..20  group id: 0 is the whole job, 1..4095 others
///   bits 19..16  0 send/recv, 1 collectives, 2 pipelines, 3 calls that wait
///   bits 15..0   the caller's tag; of a collective, its number modulo 64 and its
///                level times 64; of a pipeline, which way
///
/// @par Cost  A send or receive allocates nothing beyond coroutine frames. Collectives keep their
/// scratch memory
///   here: a call allocates only when more calls, or longer ones, are under way at once than ever
///   before.
/// @par Lifetime  The fabric outlives the communicator, and the communicator every call on it.
/// Movable while no call
///   is under way.
/// @par Executor  The fabric's; every call is awaited there.
/// @par Failure  An error that ends a collective or a pipeline ends the communicator: every rank of
/// the job hears of
///   it through `fabric::fail`, pending and later calls throw the same error, and what the call was
///   to fill is unspecified. Only refused arguments (`bad_input`, `unsupported_memory`,
///   `limit_exceeded`) change nothing.
class communicator {
 public:
  /// All ranks of the job, group id 0.
  communicator(fabric& over, const settings& options);
  /// `members`: ranks of the job in the order of their ranks here. `group_id`: 1..4095, the same on
  /// all members and used by no other group with a member in common.
  /// @par Errors `errc::bad_input`: no members, one twice or outside the job, this rank not among
  /// them, a wrong id, or one that another communicator of this fabric has.
  communicator(fabric& over, const settings& options, std::vector<int> members,
               std::uint16_t group_id);
  /// Divides the group: the ranks that give the same colour become a group, in the order of their
  /// keys, and of their ranks here where keys are equal. A negative colour: in none, and null comes
  /// back. Every rank calls it, as a collective; what comes back can be divided again. One at
  /// a time on a rank: they choose ids, the highest that are free.
  /// @par Errors As of the collectives; `errc::limit_exceeded` on every rank where no id is free.
  /// @par Cost  An all_gather of 8 bytes each and an all_reduce of 512; where the ranks of a part
  ///   share memory and the whole has a plan, what `make_communicator` says of that.
  asio::awaitable<std::unique_ptr<communicator>> split(int colour, int key = 0);
  communicator(communicator&&) noexcept;
  communicator& operator=(communicator&&) noexcept;
  ~communicator();

  int rank() const noexcept;
  int size() const noexcept;
  asio::any_io_executor get_executor() const noexcept;
  /// By what it does its collectives: what `make_communicator` agreed on, of a part made by `split`
  /// the same for its ranks, else `plan::standard`.
  const plan& agreed() const noexcept;

  /// Sends one message; completes when the view may be reused. The k-th send with a tag meets the
  /// peer's k-th receive with that tag. Cancellation, deadlines and errors as `channel::send`; they
  /// end this operation only.
  /// @par Errors `errc::bad_input` for a rank outside the group and for oneself;
  /// `errc::limit_exceeded`: each tag is a flow, and `settings::max_flows` bounds them.
  asio::awaitable<void> send(int to, const_view message, std::uint16_t tag = 0);
  /// Receives the next message with that tag and returns its length in bytes, which may be less
  /// than the view's.
  asio::awaitable<std::size_t> recv(int from, mutable_view into, std::uint16_t tag = 0);
  /// Both at once, so that ranks that exchange messages need no order among themselves. Completes
  /// when both have, also after an error of one, which it then throws.
  asio::awaitable<std::size_t> sendrecv(int to, const_view message, int from, mutable_view into,
                                        std::uint16_t tag = 0);

  /// For the collectives.
  const std::shared_ptr<detail::group>& internals() const noexcept { return group_; }

 private:
  std::shared_ptr<detail::group> group_;
};

}  // namespace tandem
