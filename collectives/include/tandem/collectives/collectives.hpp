#pragma once

#include <cstdint>
#include <string_view>
#include <tandem/collectives/communicator.hpp>
#include <tandem/collectives/reduction.hpp>

/// Calls that all ranks of a communicator make, in the same order and with the same sizes, types
/// and settings.
///
/// @par Concurrency  Up to 64 may be under way at once on one communicator; they are matched by the
/// order in which
///   they start, so start them in the same order on every rank. One more is refused with
///   `errc::limit_exceeded`.
/// @par Errors  As under communicator, Failure. `errc::call_mismatch`: ranks disagree on a size.
/// The error's phase
///   says how far it had come: "all_reduce, ring step 2 of 6, recv: waiting for a message".
/// @par Cancellation  Terminal. It ends the communicator, for the other ranks cannot finish without
/// this one;
///   completes late, when nothing touches the views any more.
/// @par Cost  Nothing is sent for zero bytes or by a group of one.
namespace tandem {

enum class all_reduce_algorithm : std::uint8_t { automatic, ring, recursive_doubling };

std::string_view name(all_reduce_algorithm how) noexcept;

/// Returns when every rank has called it. Dissemination: ceil(log2 n) rounds of one empty message
/// each way.
asio::awaitable<void> barrier(communicator& among);

/// Copies the root's `data` into every other rank's; the same length everywhere.
/// Short data goes down a binomial tree, long data in chunks down a chain: see
/// `broadcast_takes_chain`.
asio::awaitable<void> broadcast(communicator& among, mutable_view data, int root);

/// True where a chain of chunks ends sooner than a binomial tree of whole messages. A pure
/// function, so that all ranks decide alike: with C chunks the chain takes 1 + (n - 2) / C transfer
/// times, the tree ceil(log2 n).
bool broadcast_takes_chain(int ranks, std::size_t bytes, std::size_t chunk_bytes) noexcept;

/// Combines every rank's `data` element by element and leaves the result in all of them. Host
/// memory, aligned to its elements. `automatic`: the ring from `settings::all_reduce_ring_bytes`
/// on. All ranks give the same type and operation; what it computes is under `reduce_op`.
///
/// The order of combination is fixed by the number of ranks and the algorithm alone, and each
/// element is combined once and copied, or combined from the same operands everywhere: the same
/// ranks and data give the same bits on every rank and in every run, whichever instructions the
/// processors have.
///
/// @par Errors `errc::bad_input`: a type, an operation or a pair of both that is not defined, a
/// factor that the type cannot hold, data that are no whole number of elements or not aligned.
///
/// - recursive doubling: of n ranks the first 2(n - p) join in neighbouring pairs, p the greatest
/// power of two that is
///   not above n; then neighbours join, then pairs, then fours: always (result of lower ranks) op
///   (result of higher ones). n = 5: ((x0 x1) x2) (x3 x4). ceil(log2 n) messages of full length.
/// - ring: element i of segment s = x_s, then op x_(s+1), ... around the ring to x_(s-1), the
/// running result on the
///   left. Segment s of E elements is [E s / n, E (s + 1) / n). 2 (n - 1) / n of the data in and
///   out of each rank, which is the least possible; in chunks of at most
///   `settings::collective_chunk_bytes`, one being combined while the next travels.
asio::awaitable<void> all_reduce(communicator& among, mutable_view data, data_type type,
                                 reduction what,
                                 all_reduce_algorithm how = all_reduce_algorithm::automatic);

/// Collects one block of equal length from each rank in `all` at the root, by rank: size() *
/// mine.bytes there, ignored elsewhere. Every rank sends straight to the root: for results and
/// reports.
asio::awaitable<void> gather(communicator& among, const_view mine, mutable_view all, int root);

}  // namespace tandem
