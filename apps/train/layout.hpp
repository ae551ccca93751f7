#pragma once

#include <string>
#include <string_view>
#include <tandem/pipeline_schedule.hpp>
#include <vector>

#include "cli/text.hpp"

namespace tandem::train {

using cli::island;
using cli::parse_islands;

/// Location of one rank in the job.
struct rank_location {
  int stage = 0;    ///< of the pipeline
  int replica = 0;  ///< of the data-parallel group of its stage
  int island = 0;
};

/// Consecutive layers of the model.
struct layer_range {
  int first = 0;
  int count = 0;
};

/// Layout options of the command line; empty or 0 means the default.
struct layout_options {
  int ranks = 0;        ///< default: the sum over the islands, else 4
  std::string islands;  ///< "nvidia:2,amd:2"; default: two islands of half the ranks each
  int stages = 0;       ///< default: one per island
  /// Layers of each stage, "17,15", or of each chunk in the order of the model; default: even,
  /// remainder to the first ones.
  std::string split;
  int chunks = 1;  ///< of each stage: parts of the model that are not consecutive
  pipeline_placement placement = pipeline_placement::looped;  ///< of the chunks
};

/// Grid of `stages` x `replicas` ranks. Rank = stage * replicas + replica, so that a stage's
/// replicas, which sum their gradients, are adjacent ranks on one island.
class layout {
 public:
  /// @par Errors `errc::bad_option`: what does not divide or add up, and a valid choice.
  layout(const layout_options& requested, int model_layers);
  /// All layers on one rank.
  static layout single(int model_layers);

  /// The same stages with fewer replicas. @pre 1 <= count <= replicas()
  layout with_replicas(int count) const;

  int ranks() const noexcept { return stages() * replicas_; }
  int stages() const noexcept { return static_cast<int>(split_.size()) / chunks_; }
  int chunks() const noexcept { return chunks_; }
  pipeline_placement placement() const noexcept { return placement_; }
  int replicas() const noexcept { return replicas_; }
  const std::vector<island>& islands() const noexcept { return islands_; }
  /// Layers of each chunk, in the order of the model.
  const std::vector<int>& split() const noexcept { return split_; }

  /// @pre 0 <= rank < ranks().
  rank_location at(int rank) const;
  /// The layers of one of a rank's chunks.
  layer_range layers_of(int rank, int chunk = 0) const;
  int rank_of(int stage, int replica) const noexcept { return stage * replicas_ + replica; }
  /// The ranks of one pipeline, by stage.
  std::vector<int> pipeline(int replica) const;
  /// The ranks that hold the same layers, by replica.
  std::vector<int> replicas_of(int stage) const;
  /// "2 stages x 2 replicas, layers 2+2, nvidia 0-1, amd 2-3"
  std::string text() const;

 private:
  layout() = default;

  std::vector<island> islands_;
  std::vector<int> split_;  ///< layers, by chunk in the order of the model
  int chunks_ = 1;
  pipeline_placement placement_ = pipeline_placement::looped;
  int replicas_ = 1;
};

/// The replicas of a layout all of whose ranks are left, in ascending order.
/// @param left  ranks of the layout
std::vector<int> complete_replicas(const layout& before, const std::vector<int>& left);

/// Of those, the ranks that belong to one of the replicas: ascending, as ranks are numbered.
std::vector<int> ranks_of(const layout& before, const std::vector<int>& replicas);

}  // namespace tandem::train
