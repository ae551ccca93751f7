#include "model/tensors.hpp"

#include <cmath>

namespace tandem::train {
namespace {

constexpr std::uint64_t golden_gamma = 0x9e3779b97f4a7c15u;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t stream_of(std::uint64_t seed, const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  return mix(mix(seed + golden_gamma) ^ hash);
}

class table {
 public:
  explicit table(const model_config& config) : config_(config) {}

  void norm(const std::string& name, int layer) { add(name, layer, 1, config_.dim, 1, 0); }

  void projection(const std::string& name, int layer, int outputs, int inputs, double gain = 1) {
    add(name + ".weight", layer, outputs, inputs, 0, gain / std::sqrt(inputs));
  }

  void biased_projection(const std::string& name, int layer, int outputs) {
    projection(name, layer, outputs, config_.dim);
    if (config_.qkv_bias) add(name + ".bias", layer, 1, outputs, 0, 0);
  }

  void add(const std::string& name, int layer, int rows, int columns, double mean,
           double deviation) {
    tensors.push_back({name, layer, rows, columns, mean, deviation});
  }

  std::vector<tensor_info> tensors;

 private:
  const model_config& config_;
};

}  // namespace

std::vector<tensor_info> model_tensors(const model_config& config) {
  // Matrices that write into the residual stream start smaller, so that its variance does not grow
  // with depth (GPT-2: one over the square root of their number).
  const double residual_gain = 1 / std::sqrt(2.0 * config.layers);
  table all(config);
  all.add("model.embed_tokens.weight", -1, vocabulary, config.dim, 0, 0.02);
  for (int layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    all.norm(prefix + "input_layernorm.weight", layer);
    all.biased_projection(prefix + "self_attn.q_proj", layer, config.dim);
    all.biased_projection(prefix + "self_attn.k_proj", layer, config.kv_dim());
    all.biased_projection(prefix + "self_attn.v_proj", layer, config.kv_dim());
    all.projection(prefix + "self_attn.o_proj", layer, config.dim, config.dim, residual_gain);
    all.norm(prefix + "post_attention_layernorm.weight", layer);
    all.projection(prefix + "mlp.gate_proj", layer, config.hidden, config.dim);
    all.projection(prefix + "mlp.up_proj", layer, config.hidden, config.dim);
    all.projection(prefix + "mlp.down_proj", layer, config.dim, config.hidden, residual_gain);
  }
  all.norm("model.norm.weight", config.layers);
  if (!config.tied_embeddings)
    all.add("lm_head.weight", config.layers, vocabulary, config.dim, 0, 0.02);
  return all.tensors;
}

template <class Scalar>
void fill_initial(const tensor_info& tensor, std::uint64_t seed, std::span<Scalar> values) {
  const std::uint64_t stream = stream_of(seed, tensor.name);
  const double bound = std::sqrt(3.0) * tensor.deviation;  // uniform on [-bound, bound)
  for (std::size_t k = 0; k < values.size(); ++k) {
    const std::uint64_t bits = mix(stream + (k + 1) * golden_gamma);
    const double unit = static_cast<double>(bits >> 11) * 0x1p-52 - 1;
    values[k] = static_cast<Scalar>(tensor.mean + bound * unit);
  }
}

template void fill_initial<float>(const tensor_info&, std::uint64_t, std::span<float>);
template void fill_initial<double>(const tensor_info&, std::uint64_t, std::span<double>);

}  // namespace tandem::train
