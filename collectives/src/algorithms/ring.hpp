#pragma once

#include "partition/blocks.hpp"

namespace tandem::detail {

/// The partition of data for a ring: a segment per rank, each cut into the same number of chunks.
struct ring_cut {
  ring_cut(blocks segments, std::size_t element_bytes, std::size_t chunk_bytes);

  /// May be empty, if the segment is shorter than the longest.
  extent piece(int segment, std::size_t chunk) const noexcept;

  blocks segments;
  std::size_t chunks = 1;       ///< per segment
  std::size_t chunk_bytes = 0;  ///< of the longest chunk; whole elements
};

/// The schedule of one rank in a ring, as one sequence of pieces that it sends and receives.
///
/// Chunks travel in batches of up to `window`, each batch all the way around before the next, so
/// that a piece is forwarded while it is still in the cache. Piece i is sent as soon as piece
/// i - batch, which is the same chunk of the same segment, has been received and combined.
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
  /// After combining this piece with the rank's own data the result is complete.
  bool finishes(std::size_t piece) const noexcept { return step(piece) == combining_ - 1; }
  extent sent(std::size_t piece) const noexcept { return where(piece, -step(piece)); }
  /// A piece that is received in a step is sent in the next one.
  extent received(std::size_t piece) const noexcept { return where(piece, -step(piece) - 1); }

 private:
  extent where(std::size_t piece, int back) const noexcept;

  const ring_cut& cut_;
  const int first_;  // the segment sent in the first step
  const int steps_;
  const int combining_;
  const std::size_t batch_;
  const std::size_t pieces_;
};

}  // namespace tandem::detail
