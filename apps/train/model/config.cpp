#include "model/config.hpp"

#include <stdexcept>

#include "model/tensors.hpp"

namespace tandem::train {
namespace {

/// The sizes of the presets, shared by both architectures.
struct size_preset {
  const char* name;
  int layers, dim, heads, kv_heads, hidden, sequence_length;
};

constexpr size_preset sizes[] = {
    {"tiny", 4, 32, 4, 2, 48, 16},         // 47 thousand parameters: tests
    {"small", 4, 128, 4, 2, 344, 128},     // 0.8 million: the demo
    {"medium", 8, 320, 10, 5, 1024, 256},  // 10 million
};

model_config make(const char* family, const size_preset& size, bool qwen2) {
  model_config config;
  config.name = std::string(family) + "-" + size.name;
  config.layers = size.layers;
  config.dim = size.dim;
  config.heads = size.heads;
  config.kv_heads = size.kv_heads;
  config.hidden = size.hidden;
  config.sequence_length = size.sequence_length;
  config.rope_theta = qwen2 ? 1e6 : 1e4;
  config.norm_epsilon = qwen2 ? 1e-6 : 1e-5;
  config.qkv_bias = qwen2;
  config.tied_embeddings = qwen2;
  return config;
}

std::vector<model_config> presets() {
  std::vector<model_config> all;
  for (const size_preset& size : sizes) all.push_back(make("llama", size, false));
  for (const size_preset& size : sizes) all.push_back(make("qwen2", size, true));
  return all;
}

void require(bool fits, const std::string& what) {
  if (!fits) throw std::invalid_argument("model: " + what);
}

}  // namespace

void check(const model_config& config) {
  require(config.layers > 0 && config.dim > 0 && config.hidden > 0,
          "layers, dim and hidden must be positive");
  require(config.heads > 0 && config.dim % config.heads == 0, "dim must be a multiple of heads");
  require(config.head_dim() % 2 == 0, "dim / heads must be even: rotary positions rotate pairs");
  require(config.kv_heads > 0 && config.heads % config.kv_heads == 0,
          "heads must be a multiple of kv_heads");
}

model_config find_model(std::string_view name) {
  std::string known;
  for (model_config& config : presets()) {
    if (config.name == name) return config;
    known += (known.empty() ? "" : ", ") + config.name;
  }
  throw std::invalid_argument("no model '" + std::string(name) + "'; available models: " + known);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const model_config& config : presets()) names.push_back(config.name);
  return names;
}

long parameter_count(const model_config& config) {
  long count = 0;
  for (const tensor_info& tensor : model_tensors(config)) count += static_cast<long>(tensor.size());
  return count;
}

double flops_per_token(const model_config& config, int sequence_length) {
  const double projections = 2.0 * config.dim * (config.dim + config.kv_dim());
  const double mlp = 3.0 * config.dim * config.hidden;
  const double head = static_cast<double>(config.dim) * vocabulary;
  return 6 * (config.layers * (projections + mlp) + head) +
         12.0 * config.layers * config.dim * sequence_length;
}

}  // namespace tandem::train
