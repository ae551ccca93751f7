#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::train {

/// Tokens are bytes.
inline constexpr int vocabulary = 256;

/// The shape of a decoder-only language model: pre-RMSNorm, rotary positions, grouped-query causal
/// attention, SwiGLU, no bias except on q, k and v with `qkv_bias`. LLaMA is neither
/// `qkv_bias` nor `tied_embeddings`; Qwen2 is both.
struct model_config {
  std::string name;
  int layers = 0;
  int dim = 0;              ///< width of the residual stream
  int heads = 0;            ///< query heads
  int kv_heads = 0;         ///< key and value heads; `heads` is a multiple of it
  int hidden = 0;           ///< width inside the MLP
  int sequence_length = 0;  ///< default length of a training sequence
  double rope_theta = 10000;
  double norm_epsilon = 1e-5;
  bool qkv_bias = false;
  bool tied_embeddings = false;  ///< the head is the embedding transposed

  int head_dim() const { return dim / heads; }
  int kv_dim() const { return head_dim() * kv_heads; }
};

/// Throws std::invalid_argument, naming the field, if the numbers are inconsistent.
void check(const model_config& config);

/// The preset of that name; throws std::invalid_argument with the known names if there is none.
model_config find_model(std::string_view name);

std::vector<std::string> model_names();

/// Parameters of the whole model; tied embeddings count once.
long parameter_count(const model_config& config);

/// Floating-point operations to train on one token (forward and backward): 6 per weight of a matrix
/// product and 12 * layers * dim * sequence_length for attention, counted without the causal half,
/// as papers count them (PaLM, 2204.02311, appendix B).
double flops_per_token(const model_config& config, int sequence_length);

}  // namespace tandem::train
