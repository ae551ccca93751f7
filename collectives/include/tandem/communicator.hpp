/// Groups of ranks, and the plan on which they agree.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tandem/fabric.hpp>
#include <tandem/memory.hpp>
#include <tandem/settings.hpp>
#include <vector>

#pragma GCC visibility push(default)

namespace tandem {

namespace asio = boost::asio;

class plan;

namespace detail {
class group;
}

/// What carries the collectives of a communicator.
enum class group_backend : std::uint8_t {
  alone,     ///< one rank: nothing is sent
  library,   ///< one island: the vendor's library only
  levels,    ///< the library inside islands, channels between them
  channels,  ///< channels only: host memory, no two ranks in one island, or no usable library
};

/// The back-end of a communicator: the same on all of its ranks.
struct backend_description {
  group_backend how = group_backend::channels;
  std::vector<std::vector<int>> islands;  ///< the ranks of each; none unless made with islands
  /// "tcp channels", "2 islands: cuda (ranks 0, 1) by NCCL 2.28.3, hip (rank 2)"
  std::string text;
};

/// A message that was received from any rank.
struct received_message {
  int from = -1;          ///< its rank in the group
  std::size_t bytes = 0;  ///< its length
};

/// A group of ranks of one job that communicate: the whole job, a pipeline, the replicas of a
/// stage.
///
/// Ranks in its calls are ranks of the group. All messages travel on the fabric's channels, on
/// flows that only this group uses, so messages of groups that share a pair of ranks never mix:
///
///   bits 31..20  group id: 0 is the whole job, 1..4095 others
///   bits 19..16  0 send/recv, 1 collectives, 2 pipelines, 3 detection of mismatched calls,
///                4 windows, 5 stream messages
///   bits 15..0   the caller's tag; for a collective, its number modulo 64 plus its level times 64;
///                for a pipeline, the direction
///
/// @par Cost  A send or receive allocates nothing beyond coroutine frames. Collectives keep their
///   scratch memory here: a call allocates only when more calls, or longer ones, are in progress at
///   once than ever before.
/// @par Lifetime  The fabric outlives the communicator and every call on it. Destroying the
///   communicator, or assigning to it, ends calls in progress with `errc::channel_closed`: messages
///   alone, but a collective or a pipeline as any failure of one does. Movable at any time; every
///   call on a communicator that was moved from throws `errc::bad_input`.
/// @par Executor  The fabric's; every call is awaited there.
/// @par Failure  An error that ends a collective or a pipeline ends the communicator: every rank of
///   the job receives it through `fabric::fail`, pending and later calls throw the same error, and
///   the contents of the views that the call was to write are unspecified. Only rejected arguments
///   (`bad_input`, `unsupported_memory`, `limit_exceeded`) change nothing.
class communicator {
 public:
  /// All ranks of the job, group id 0.
  communicator(fabric& over, const settings& options);
  /// `members`: ranks of the job, ordered by their rank in the group. `group_id`: 1..4095, the same
  /// on all members and used by no other group with a member in common.
  /// @par Errors `errc::bad_input`: no members, a member listed twice or outside the job, this rank
  /// not among them, an id out of range or in use by another communicator of this fabric.
  communicator(fabric& over, const settings& options, std::vector<int> members,
               std::uint16_t group_id);
  /// Splits the group, as MPI_Comm_split does: ranks with the same colour form a group, ordered by
  /// key, then by rank in this group. A rank with a negative colour joins none and gets null. Every
  /// rank calls it, as a collective; the result has channels only and can be split again. Only one
  /// split at a time on a rank, because each chooses an id: the highest that is free.
  /// @par Errors Those of the collectives; `errc::limit_exceeded` on every rank if no id is free.
  /// @par Cost  An all_gather of 8 bytes per rank and an all_reduce of 512; where the ranks of a
  ///   part share memory and this group has an agreed plan, also the board of `make_communicator`.
  asio::awaitable<std::unique_ptr<communicator>> split(int colour, int key = 0);
  /// The group of some ranks of this one, called by those only, as MPI_Comm_create_group does.
  /// `members`: ranks of this group, in the order of the new one; `group_id` as in the constructor.
  /// The plan is this group's for those ranks, as after `split`.
  /// @par Errors Those of the constructor, and of the collectives.
  /// @par Cost  None where ranks share no memory; else that of the board of `make_communicator`.
  asio::awaitable<std::unique_ptr<communicator>> create_group(std::vector<int> members,
                                                              std::uint16_t group_id);
  communicator(communicator&&) noexcept;
  communicator& operator=(communicator&&) noexcept;
  ~communicator();

  int rank() const;
  int size() const;
  /// The rank in the job of a rank of this group.
  int job_rank(int rank) const;
  asio::any_io_executor get_executor() const;
  /// The plan of its collectives: the one agreed on in `make_communicator`; after `split`, the plan
  /// for the ranks of the part; else `plan::standard`.
  const plan& agreed() const;
  /// The back-end of its collectives on device memory: channels unless it was made by
  /// `make_island_communicator` or `parallel_groups`. All other calls use channels in any case.
  const backend_description& backend() const;

  /// Time limit of each operation of this communicator that starts from now on: a collective or a
  /// message that takes longer ends with `errc::timed_out`. Empty, as at first: each message has
  /// `settings::operation_timeout` of the fabric. Pipelines keep to that.
  void set_timeout(std::optional<std::chrono::milliseconds> limit);

  /// Sends one message; completes when the view may be reused. The k-th send with a tag matches the
  /// peer's k-th receive with that tag. Cancellation, deadlines and errors as for `channel::send`;
  /// they end this operation only.
  /// @par Errors `errc::bad_input` for a rank outside the group and for the caller's own rank;
  /// `errc::limit_exceeded`: each tag is a flow, and `settings::max_flows` bounds them.
  asio::awaitable<void> send(int to, const_view message, std::uint16_t tag = 0);
  /// Receives the next message with that tag and returns its length in bytes, which may be less
  /// than the view's.
  asio::awaitable<std::size_t> recv(int from, mutable_view into, std::uint16_t tag = 0);
  /// Waits for a message with that tag, and returns its length in bytes; the next receive takes it.
  asio::awaitable<std::size_t> probe(int from, std::uint16_t tag = 0);
  /// Receives a message with that tag from whichever rank sends one, so that a server with many
  /// clients is one loop. Ranks that send are served in turn; the messages of each arrive in order.
  /// One call at a time for a tag, and no other receive with it: they would take each other's
  /// messages. Works on ranks that leave in order while others stay.
  /// @par Cost  Connects to all ranks first. Each call probes every rank, in one allocation.
  /// @par Errors  Those of `recv`; `errc::peer_closed` once all other ranks have left;
  ///   `errc::bad_input` where there is no other rank.
  /// @par Cancellation  As for `recv`; a message is not taken by a call that is cancelled in time.
  asio::awaitable<received_message> recv_any(mutable_view into, std::uint16_t tag = 0);
  /// Sends and receives at once, so that ranks that exchange messages cannot deadlock. Completes
  /// when both operations have, even if one fails; then throws its error.
  asio::awaitable<std::size_t> sendrecv(int to, const_view message, int from, mutable_view into,
                                        std::uint16_t tag = 0);

  /// For the collectives. @par Errors `errc::bad_input`: it was moved from.
  const std::shared_ptr<detail::group>& internals() const {
    if (!group_) throw_moved_from();
    return group_;
  }

 private:
  [[noreturn]] static void throw_moved_from();
  void close() noexcept;

  std::shared_ptr<detail::group> group_;
};

/// Makes the communicator of all ranks of the job (group id 0) and agrees on its plan. Every rank
/// of the job calls it.
///
/// Ranks exchange their host (`settings::host`, else the host name and boot id of this machine),
/// their channel and their plan settings. One pair of ranks inside a host and one across hosts, the
/// lowest ranks of each, measure latency and rate, unless `settings::profile` supplies them. All
/// ranks compute `plan::of` from the exchanged facts and compare its hash.
///
/// Ranks that all share the memory of one host, up to 16, are then fully connected and share a
/// `board` for short calls, about 70 KB for each rank.
///
/// @param like  an empty view of the memory, host or device, that most collectives of this rank
///   will work on; the measurement uses such memory. One rank with device memory makes the plan one
///   for devices. Calls on other memory are correct, but may be slower.
/// @par Cost  Four small all_gathers, three more for a board, and a few milliseconds for each of
///   the two pairs.
/// @par Errors `errc::call_mismatch`, the same on every rank: what differs, and on which ranks; the
///   fabric stays usable. `errc::unsupported_memory`: the device does not exist, or a channel does
///   not carry its memory. `errc::bad_input` for a profile and `bad_option` for a pin that this
///   rank cannot read: the error is sent to the other ranks and the fabric has failed. Also those
///   of all_gather.
/// @par Cancellation  As under collectives.
asio::awaitable<communicator> make_communicator(fabric& over, settings options,
                                                const_view like = {});

}  // namespace tandem

#pragma GCC visibility pop
