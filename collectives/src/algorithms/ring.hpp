#pragma once

#include "algorithms/blocks.hpp"

namespace tandem::detail {

/// How a ring cuts data: a segment per rank, each in as many chunks as any other.
struct ring_cut {
  ring_cut(blocks segments, std::size_t element_bytes, std::size_t chunk_bytes);

  /// Nothing, where the segment is shorter than the longest.
  extent piece(int segment, std::size_t chunk) const noexcept;

  blocks segments;
  std::size_t chunks = 1;       ///< of a segment
  std::size_t chunk_bytes = 0;  ///< the longest; whole elements
};

/// One rank's way around a ring, as one sequence of pieces: what it sends and receives when.
///
/// Chunks go in batches of up to `window`, each batch all the way around before the next, so that a
/// piece is sent on while a cache still holds it. Piece i goes out as soon as piece i - batch,
/// which is the same chunk of the same segment, has come in and was combined.
class ring_walk {
 public:
  enum class part : std::uint8_t { all_reduce, all_gather, reduce_scatter };
  static constexpr std::size_t window = 4;

  ring_walk(part of, const ring_cut& cut, int rank) noexcept;

  int steps() const noexcept { return steps_; }
  std::size_t batch() const noexcept { return batch_; }
  std::size_t pieces() const noexcept { return pieces_; }

  int step(std::size_t piece) const noexcept {
    return static_cast<int>(piece / batch_ % static_cast<std::size_t>(steps_));
  }
  bool combines(std::size_t piece) const noexcept { return step(piece) < combining_; }
  /// Its own part is the last one that it lacked.
  bool finishes(std::size_t piece) const noexcept { return step(piece) == combining_ - 1; }
  extent sent(std::size_t piece) const noexcept { return where(piece, -step(piece)); }
  /// What comes in at a step goes out at the next.
  extent received(std::size_t piece) const noexcept { return where(piece, -step(piece) - 1); }

 private:
  extent where(std::size_t piece, int back) const noexcept;

  const ring_cut& cut_;
  const int first_;  // the segment sent at first
  const int steps_;
  const int combining_;
  const std::size_t batch_;
  const std::size_t pieces_;
};

}  // namespace tandem::detail
