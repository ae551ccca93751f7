#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tandem/collectives/algorithm.hpp>
#include <tandem/collectives/facts.hpp>
#include <tandem/settings.hpp>
#include <vector>

namespace tandem {

/// From so many bytes on, a collective is done so.
struct plan_rule {
  collective what = collective::barrier;
  std::size_t from_bytes = 0;
  algorithm how = algorithm::automatic;
  std::size_t chunk_bytes = 0;  ///< the longest piece that travels at once
  std::string why;              ///< for people; two plans may differ in it and be the same
};

/// What a group has agreed on: for each operation and length one algorithm and chunk.
///
/// The length is that of the data of one rank: of `all` for all_gather, reduce_scatter, gather,
/// scatter and all_to_all.
///
/// @par Pins  `settings::plan` overrides any part, by pins with commas between them:
///
///   all_reduce=ring               always
///   all_reduce:64K-=ring/512K     from 64 KiB on, in chunks of at most 512 KiB
///   broadcast:4K-1M=tree          from 4 KiB to below 1 MiB
///   reduce_scatter:-64K=pairwise  below 64 KiB
///   all_gather=automatic/128K     the chunk alone
///
/// A later pin wins over an earlier one.
class plan {
 public:
  /// For every operation at least the rule from 0 bytes on.
  explicit plan(std::vector<plan_rule> rules, facts known = {});
  /// The rules for a group of which nothing is known but its size, every rank on one host, and the
  /// pins. @par Errors `errc::bad_option`: which pin, why, the nearest right word.
  static plan standard(int ranks, const settings& options);
  /// For every operation and length the algorithm and chunk of which the model in
  /// `src/plan/cost.hpp` predicts the least time, and the pins. Lengths are powers of two from 8
  /// bytes to 1 GiB; a rule goes on while it is predicted to cost less than a fiftieth more than
  /// the best.
  ///
  /// No rounding can make two ranks differ: it computes with whole numbers, from `known`, which all
  /// ranks have exchanged.
  /// @par Cost  Ranks squared: about 1 ms of 64, 1 s of 4096. @par Errors as `standard`.
  static plan of(const facts& known, const settings& options);

  const plan_rule& choose(collective what, std::size_t bytes) const noexcept;
  std::span<const plan_rule> rules() const noexcept { return rules_; }
  /// What it was made from.
  const facts& known() const noexcept { return known_; }

  /// A line for each rule, "all_reduce from 64K: ring, chunk 512K", and before them one for each
  /// host. Plans with the same text are the same.
  std::string text() const;
  /// CRC-32C of the text.
  std::uint32_t hash() const;

 private:
  std::vector<plan_rule> rules_;                           // by operation, then by length
  std::array<std::size_t, collective_count + 1> first_{};  // of an operation, in rules_
  facts known_;
};

/// "ring, chunk 512K"; without the chunk where the algorithm has none.
std::string describe(const plan_rule& rule);
/// The algorithm cuts messages into chunks.
bool has_chunks(collective what, algorithm how) noexcept;

}  // namespace tandem
