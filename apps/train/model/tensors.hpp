#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/config.hpp"

namespace tandem::train {

/// One named tensor of a model. Matrices are [outputs x inputs], row by row; vectors have one row.
struct tensor_info {
  std::string name;  ///< as in published checkpoints: "model.layers.0.self_attn.q_proj.weight"
  int layer;         ///< -1: the embedding; config.layers: final norm and head
  int rows;
  int columns;
  double mean;       ///< of the initial values
  double deviation;  ///< standard deviation of the initial values; 0: all equal the mean

  std::size_t size() const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  }
  bool is_matrix() const { return rows > 1; }
};

/// Every tensor of the whole model, in an order that no partition changes. A tied head is not
/// listed: it is the embedding.
std::vector<tensor_info> model_tensors(const model_config& config);

/// Writes the tensor's initial values. They depend only on seed, name and index, so that no
/// partition of the model changes them: the k-th number is SplitMix64 (Steele, Lea, Flood 2014) at
/// position k of a stream keyed by the name, made uniform with the tensor's mean and deviation.
template <class Scalar>
void fill_initial(const tensor_info& tensor, std::uint64_t seed, std::span<Scalar> values);

}  // namespace tandem::train
