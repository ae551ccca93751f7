/// The collectives and their algorithms.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <tandem/communicator.hpp>
#include <tandem/reduction.hpp>
#include <vector>

#pragma GCC visibility push(default)

namespace tandem {

/// The collective operations. A `_v` variant counts as the same operation.
enum class collective : std::uint8_t {
  barrier,
  broadcast,
  reduce,
  all_reduce,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
};
inline constexpr std::size_t collective_count = 9;

/// How a collective is carried out. The declarations in `src/algorithms/algorithms.hpp` give each
/// algorithm's order of combination, cost and source.
enum class algorithm : std::uint8_t {
  automatic,           ///< the plan decides, by operation and length
  ring,                ///< chunks from neighbour to neighbour, all links busy
  recursive_doubling,  ///< exchange with a partner at distance 1, 2, 4...
  halving_doubling,    ///< reduce-scatter by halves, then all-gather by doubles
  tree,                ///< whole messages down or up a binomial tree
  chain,               ///< chunks from rank to rank, each forwarded while the next arrives
  bruck,               ///< log2 n rounds, each forwarding the blocks received so far
  pairwise,            ///< one partner after the other
  direct,              ///< all partners at once
  two_level,           ///< inside each host, then across hosts
  board,               ///< each rank writes once to shared memory that all ranks of the host read
};
inline constexpr std::size_t algorithm_count = 11;

/// "all_reduce".
std::string_view name(collective what) noexcept;
/// "recursive_doubling".
std::string_view name(algorithm how) noexcept;

/// The algorithms of an operation, without `automatic`.
std::span<const algorithm> algorithms_of(collective what) noexcept;
/// Their names, "automatic" first: the choices of a user.
std::vector<std::string_view> algorithm_names(collective what);
/// The algorithm with that name; empty if the operation has none.
std::optional<algorithm> find_algorithm(collective what, std::string_view name) noexcept;
/// The algorithm used instead of `algorithm::board` where ranks share no board, and for long calls.
algorithm without_board(collective what) noexcept;
/// Whether the operation has that algorithm; true for `automatic`.
bool is_defined(collective what, algorithm how) noexcept;

}  // namespace tandem

/// Collectives: every rank of a communicator calls them in the same order and with the same sizes,
/// types and settings.
///
/// Views hold bytes; n is the number of ranks and r the rank of the caller. "All" views hold n
/// blocks in rank order, of equal length, or, with `_v`, of the given lengths, which may be 0 and
/// are the same list on every rank. A view that is written to must not overlap any other view of
/// the call, except in place, which is requested by passing the same address: the block is then the
/// caller's own block inside the "all" view, whether the call reads the block and writes "all" or
/// the other way around. Views that are only read are not changed.
///
/// @par Memory  All views of one call on one rank lie in host memory, or all on one accelerator;
/// ranks may choose differently, and the bits of the result are the same. The contents of a device
/// view must be complete when the call starts (`device_watch::reached` of the stream that writes
/// them), and the result is complete when the call completes. The first call that combines a type
/// on a device compiles its kernels, which takes about a second, unless the user's cache has them.
/// @par Islands  If the communicator has islands (`communicator::backend`), a call without `_v` of
/// broadcast, reduce, all_reduce, all_gather, reduce_scatter, all_to_all or weighted_mean on device
/// memory and with `automatic` is carried out by them; then views of other devices than this rank's
/// are refused. All other calls go over channels. In such a communicator all ranks of a call pass
/// memory of their devices, or all pass host memory, else `errc::call_mismatch`.
/// @par Algorithms  `automatic` follows the communicator's plan. All ranks pass the same.
/// @par Concurrency  Up to 64 are in progress at once on one communicator, and more wait for the
/// oldest to end; they are matched by the order in which they start, so start them in the same
/// order on every rank.
/// @par Errors  As under communicator, Failure. `errc::call_mismatch`: ranks make different calls
/// (operation, length, type, reduction, root, algorithm); the error on every rank names both.
/// `errc::bad_input`: invalid arguments, as far as this rank alone can detect them.
/// `errc::unsupported_memory`: the device does not exist, or a channel does not carry its memory;
/// `errc::device_failed` before anything is sent: no kernel compiler. The error's phase reports the
/// progress made: "all_reduce, ring step 2 of 6, recv: waiting for a message".
/// @par Cancellation  Terminal. It ends the communicator, because the other ranks cannot finish
/// without this one; the call completes only when nothing accesses the views any more.
/// @par Cost  Nothing is sent for zero bytes or in a group of one.
namespace tandem {

/// Returns when every rank has called it. Dissemination: ceil(log2 n) rounds of one empty message
/// each way.
asio::awaitable<void> barrier(communicator& among);

/// Copies the root's `data` into every other rank's `data`, of the same length everywhere.
/// Algorithms: tree, chain, two_level.
asio::awaitable<void> broadcast(communicator& among, mutable_view data, int root,
                                algorithm how = algorithm::automatic);

/// Combines every rank's `data` element by element and leaves the result in all of them. `data` is
/// aligned to its elements. All ranks pass the same type and operation; `reduce_op` defines the
/// arithmetic. Algorithms: ring, recursive_doubling, halving_doubling, direct, two_level.
///
/// The order of combination depends on the number of ranks and the algorithm only, and each element
/// is either combined once and copied, or combined from the same operands everywhere: the same
/// ranks and data give the same bits on every rank and in every run, whichever instruction set the
/// processors have. `src/algorithms/algorithms.hpp` documents the order of each algorithm.
///
/// @par Errors `errc::bad_input`: an undefined type, operation or combination of both, a factor
/// that the type cannot represent, data whose length is not a multiple of the element size or that
/// are not aligned.
asio::awaitable<void> all_reduce(communicator& among, mutable_view data, data_type type,
                                 reduction what, algorithm how = algorithm::automatic);
/// The same out of place: writes to `result`, of the same length.
asio::awaitable<void> all_reduce(communicator& among, const_view data, mutable_view result,
                                 data_type type, reduction what,
                                 algorithm how = algorithm::automatic);

/// Writes the result to `result` at the root; `result` is ignored elsewhere. In place: `result` is
/// `data`. Algorithms: tree, chain.
asio::awaitable<void> reduce(communicator& among, const_view data, mutable_view result,
                             data_type type, reduction what, int root,
                             algorithm how = algorithm::automatic);

/// Gathers every rank's block on every rank. Algorithms: ring, bruck, direct, two_level.
asio::awaitable<void> all_gather(communicator& among, const_view mine, mutable_view all,
                                 algorithm how = algorithm::automatic);
/// The same with a length for each rank.
asio::awaitable<void> all_gather_v(communicator& among, const_view mine, mutable_view all,
                                   std::span<const std::size_t> bytes_of_rank,
                                   algorithm how = algorithm::automatic);

/// Combines the ranks' `all` views block by block and writes block r of the result to `mine`.
/// Algorithms: ring, pairwise, halving_doubling, two_level.
asio::awaitable<void> reduce_scatter(communicator& among, const_view all, mutable_view mine,
                                     data_type type, reduction what,
                                     algorithm how = algorithm::automatic);
/// The same with a length for each rank.
asio::awaitable<void> reduce_scatter_v(communicator& among, const_view all, mutable_view mine,
                                       std::span<const std::size_t> bytes_of_rank, data_type type,
                                       reduction what, algorithm how = algorithm::automatic);

/// Gathers every rank's block in `all` at the root; `all` is ignored elsewhere. Algorithms: direct,
/// tree (equal blocks only).
asio::awaitable<void> gather(communicator& among, const_view mine, mutable_view all, int root,
                             algorithm how = algorithm::automatic);
/// The same with a length for each rank.
asio::awaitable<void> gather_v(communicator& among, const_view mine, mutable_view all,
                               std::span<const std::size_t> bytes_of_rank, int root,
                               algorithm how = algorithm::automatic);

/// Copies block r of the root's `all` to `mine`; `all` is ignored elsewhere. Algorithms: direct,
/// tree (equal blocks only).
asio::awaitable<void> scatter(communicator& among, const_view all, mutable_view mine, int root,
                              algorithm how = algorithm::automatic);
/// The same with a length for each rank.
asio::awaitable<void> scatter_v(communicator& among, const_view all, mutable_view mine,
                                std::span<const std::size_t> bytes_of_rank, int root,
                                algorithm how = algorithm::automatic);

/// Copies block i of rank r's `from` to block r of rank i's `into`. Not in place. Algorithms:
/// pairwise, direct, bruck (equal blocks only).
asio::awaitable<void> all_to_all(communicator& among, const_view from, mutable_view into,
                                 algorithm how = algorithm::automatic);
/// `sent` and `received` are lengths by rank; the length that rank r sends to rank i equals the
/// length that i receives from r.
asio::awaitable<void> all_to_all_v(communicator& among, const_view from,
                                   std::span<const std::size_t> sent, mutable_view into,
                                   std::span<const std::size_t> received,
                                   algorithm how = algorithm::automatic);

/// Replaces every rank's `data` by the mean of all, weighted for example by the share of the batch:
/// the sum of weight times data, divided by the sum of weights. Each rank passes its own weight,
/// which may be 0.
/// @par Errors `errc::bad_input` for a weight that is negative or not finite, a sum of 0, and types
///   other than floating point.
/// @par Cost  An all_reduce of 8 bytes of host memory, and one of `data`.
asio::awaitable<void> weighted_mean(communicator& among, mutable_view data, data_type type,
                                    double weight);

}  // namespace tandem

#pragma GCC visibility pop
