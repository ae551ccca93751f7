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

/// The algorithm and chunk of a collective for lengths of `from_bytes` and more.
struct plan_rule {
  collective what = collective::barrier;
  std::size_t from_bytes = 0;
  algorithm how = algorithm::automatic;
  std::size_t chunk_bytes = 0;  ///< the longest message of an algorithm that cuts data into chunks
  std::string why;              ///< for display; not part of the plan's text and hash
};

/// The algorithm selection of a group: one algorithm and chunk for each operation and length.
///
/// The length is the bytes of one rank's data; for all_gather, reduce_scatter, gather, scatter and
/// all_to_all those of its "all" view.
///
/// @par Pins  `settings::plan` overrides any part, by pins with commas between them:
///
///   all_reduce=ring               always
///   all_reduce:64K-=ring/512K     from 64 KiB on, in chunks of at most 512 KiB
///   broadcast:4K-1M=tree          from 4 KiB to below 1 MiB
///   reduce_scatter:-64K=pairwise  below 64 KiB
///   all_gather=automatic/128K     the chunk only
///
/// A later pin wins over an earlier one.
class plan {
 public:
  /// @pre `rules` contains a rule from 0 bytes for every operation.
  explicit plan(std::vector<plan_rule> rules, facts known = {});
  /// Default rules for a group of unmeasured ranks, assumed to be on one host, with the pins
  /// applied.
  /// @par Errors `errc::bad_option`: which pin, why, and the nearest valid word.
  static plan standard(int ranks, const settings& options);
  /// Selects for every operation and length the algorithm and chunk with the least time predicted
  /// by the model in `src/plan/cost.hpp`, then applies the pins. Lengths are powers of two from 8
  /// bytes to 1 GiB; a rule extends to the next length as long as its prediction is within a
  /// fiftieth of the best.
  ///
  /// It computes with integers from `known`, which all ranks have exchanged, so rounding cannot
  /// make ranks disagree.
  /// @par Cost  Quadratic in the ranks: about 1 ms for 64, 1 s for 4096. @par Errors As `standard`.
  static plan of(const facts& known, const settings& options);

  const plan_rule& choose(collective what, std::size_t bytes) const noexcept;
  std::span<const plan_rule> rules() const noexcept { return rules_; }
  /// The facts that it was computed from.
  const facts& known() const noexcept { return known_; }

  /// One line for each host, then one for each rule: "all_reduce from 64K: ring, chunk 512K". Plans
  /// with the same text are equal.
  std::string text() const;
  /// CRC-32C of the text.
  std::uint32_t hash() const;

 private:
  std::vector<plan_rule> rules_;                           // by operation, then by length
  std::array<std::size_t, collective_count + 1> first_{};  // by operation: its first in rules_
  facts known_;
};

/// "ring, chunk 512K"; without the chunk if the algorithm has none.
std::string describe(const plan_rule& rule);
/// Whether the algorithm cuts messages into chunks.
bool has_chunks(collective what, algorithm how) noexcept;

}  // namespace tandem
