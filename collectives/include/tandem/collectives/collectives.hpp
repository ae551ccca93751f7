#pragma once

#include <cstddef>
#include <span>
#include <tandem/collectives/algorithm.hpp>
#include <tandem/collectives/communicator.hpp>
#include <tandem/collectives/reduction.hpp>

/// Calls that all ranks of a communicator make, in the same order and with the same sizes, types
/// and settings.
///
/// Views hold bytes; n is the number of ranks and r this one's number. "All" views hold n blocks
/// in the order of ranks, of equal length, or with `_v` of the lengths given, which may be 0 and
/// are the same list on every rank. Views of one call that are written to overlap nothing else,
/// except in place, which is said by giving the same address: where a call reads a block and writes
/// an "all" view, its own place there; where it reads an "all" view and writes a block, its own
/// place there. What is only read is not changed.
///
/// @par Memory  All views of one call on one rank lie in host memory, or all on one accelerator;
/// which of them is each rank's own affair, and the bits of the result are the same. What a
/// device's view holds must be there when the call starts (`device_watch::reached` of the stream
/// that fills it), and is there when it completes. The first call that combines a type on a device
/// compiles its kernels, a second or so, unless the user's cache has them.
/// @par Algorithms  `automatic` asks the communicator's plan. All ranks give the same.
/// @par Concurrency  Up to 64 may be under way at once on one communicator; they are matched by the
/// order in which they start, so start them in the same order on every rank. One more is refused
/// with `errc::limit_exceeded`.
/// @par Errors  As under communicator, Failure. `errc::call_mismatch`: ranks make different calls
/// (operation, length, type, reduction, root, algorithm); every rank is told both.
/// `errc::bad_input`: what the arguments of this rank alone show to be wrong.
/// `errc::unsupported_memory`: a device that is not there, or a channel that does not carry its
/// memory; `errc::device_failed` before anything is sent: no compiler of kernels. The error's phase
/// says how far it had come: "all_reduce, ring step 2 of 6, recv: waiting for a message".
/// @par Cancellation  Terminal. It ends the communicator, for the other ranks cannot finish without
/// this one; completes late, when nothing touches the views any more.
/// @par Cost  Nothing is sent for zero bytes or by a group of one.
namespace tandem {

/// Returns when every rank has called it. Dissemination: ceil(log2 n) rounds of one empty message
/// each way.
asio::awaitable<void> barrier(communicator& among);

/// Copies the root's `data` into every other rank's; the same length everywhere.
/// Algorithms: tree, chain, two_level.
asio::awaitable<void> broadcast(communicator& among, mutable_view data, int root,
                                algorithm how = algorithm::automatic);

/// Combines every rank's `data` element by element and leaves the result in all of them. Aligned
/// to its elements. All ranks give the same type and operation; what it computes is
/// under `reduce_op`. Algorithms: ring, recursive_doubling, halving_doubling, direct, two_level.
///
/// The order of combination is fixed by the number of ranks and the algorithm alone, and each
/// element is combined once and copied, or combined from the same operands everywhere: the same
/// ranks and data give the same bits on every rank and in every run, whichever instructions the
/// processors have. The orders are under each algorithm in `src/algorithms.hpp`.
///
/// @par Errors `errc::bad_input`: a type, an operation or a pair of both that is not defined, a
/// factor that the type cannot hold, data that are no whole number of elements or not aligned.
asio::awaitable<void> all_reduce(communicator& among, mutable_view data, data_type type,
                                 reduction what, algorithm how = algorithm::automatic);
/// The same out of place: the result comes to `result`, of the same length.
asio::awaitable<void> all_reduce(communicator& among, const_view data, mutable_view result,
                                 data_type type, reduction what,
                                 algorithm how = algorithm::automatic);

/// The result comes to the root alone; `result` is ignored elsewhere. In place: `result` is `data`.
/// Algorithms: tree, chain.
asio::awaitable<void> reduce(communicator& among, const_view data, mutable_view result,
                             data_type type, reduction what, int root,
                             algorithm how = algorithm::automatic);

/// Every rank's block comes to every rank. Algorithms: ring, bruck, direct,
/// two_level.
asio::awaitable<void> all_gather(communicator& among, const_view mine, mutable_view all,
                                 algorithm how = algorithm::automatic);
asio::awaitable<void> all_gather_v(communicator& among, const_view mine, mutable_view all,
                                   std::span<const std::size_t> bytes_of_rank,
                                   algorithm how = algorithm::automatic);

/// Combines the ranks' `all` views block by block; block r of the result comes to `mine`.
/// Algorithms: ring, pairwise, halving_doubling, two_level.
asio::awaitable<void> reduce_scatter(communicator& among, const_view all, mutable_view mine,
                                     data_type type, reduction what,
                                     algorithm how = algorithm::automatic);
asio::awaitable<void> reduce_scatter_v(communicator& among, const_view all, mutable_view mine,
                                       std::span<const std::size_t> bytes_of_rank, data_type type,
                                       reduction what, algorithm how = algorithm::automatic);

/// Every rank's block comes to `all` at the root; `all` is ignored elsewhere. Algorithms: direct,
/// tree (of equal blocks).
asio::awaitable<void> gather(communicator& among, const_view mine, mutable_view all, int root,
                             algorithm how = algorithm::automatic);
asio::awaitable<void> gather_v(communicator& among, const_view mine, mutable_view all,
                               std::span<const std::size_t> bytes_of_rank, int root,
                               algorithm how = algorithm::automatic);

/// Block r of the root's `all` comes to `mine`; `all` is ignored elsewhere. Algorithms: direct,
/// tree (of equal blocks).
asio::awaitable<void> scatter(communicator& among, const_view all, mutable_view mine, int root,
                              algorithm how = algorithm::automatic);
asio::awaitable<void> scatter_v(communicator& among, const_view all, mutable_view mine,
                                std::span<const std::size_t> bytes_of_rank, int root,
                                algorithm how = algorithm::automatic);

/// Block i of rank r's `from` comes to block r of rank i's `into`. Not in place. Algorithms:
/// pairwise, direct, bruck (of equal blocks).
asio::awaitable<void> all_to_all(communicator& among, const_view from, mutable_view into,
                                 algorithm how = algorithm::automatic);
/// `sent` and `received` are lengths by rank; what rank r sends to i is what i receives from r.
asio::awaitable<void> all_to_all_v(communicator& among, const_view from,
                                   std::span<const std::size_t> sent, mutable_view into,
                                   std::span<const std::size_t> received,
                                   algorithm how = algorithm::automatic);

}  // namespace tandem
