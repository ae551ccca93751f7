// The model's arithmetic in double precision: the forward pass compared with a plain implementation
// of the papers' formulas, the backward pass with finite differences, AdamW with its recurrence.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "model/layer.hpp"
#include "model/stage.hpp"

namespace tandem::train {
namespace {

using numbers = std::vector<double>;
using bytes = std::vector<std::uint8_t>;
using double_stage = basic_stage<double>;

constexpr int length = 6;
constexpr int sequences = 2;

double noise(std::size_t k) {
  return std::sin(12.9898 * static_cast<double>(k + 1)) / 3;
}

model_config small_config(const char* name) {
  model_config config = find_model(name);
  config.layers = 2;
  config.dim = 16;
  config.hidden = 24;
  config.sequence_length = length;
  return config;
}

/// A stage whose norm weights are not one and whose biases are not zero, so that omitting one is
/// detected.
double_stage perturbed_stage(const model_config& config, int first, int last) {
  double_stage made(config,
                    {.first_layer = first, .last_layer = last, .sequences = sequences, .stash = 2});
  for (std::size_t k = 0; k < made.values().size(); ++k) made.values()[k] += noise(k);
  return made;
}

bytes text(int from) {
  bytes made;
  for (int k = 0; k < sequences * length; ++k)
    made.push_back(static_cast<std::uint8_t>((from + k * k) % 11 * 23));
  return made;
}

std::span<const double> tensor(const double_stage& stage, const std::string& name) {
  for (const parameter<double>& p : stage.parameters())
    if (p.name == name) return p.value;
  return {};
}

numbers times(std::span<const double> matrix, const numbers& x, std::span<const double> bias = {}) {
  numbers y(matrix.size() / x.size());
  for (std::size_t r = 0; r < y.size(); ++r) {
    for (std::size_t c = 0; c < x.size(); ++c) y[r] += matrix[r * x.size() + c] * x[c];
    if (!bias.empty()) y[r] += bias[r];
  }
  return y;
}

numbers normalised(const numbers& x, std::span<const double> gain, double epsilon) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  numbers y = x;
  for (std::size_t k = 0; k < x.size(); ++k)
    y[k] *= gain[k] / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  return y;
}

/// Head `head` of a token's queries or keys, rotated: x cos + rotate_half(x) sin.
numbers rotated(const numbers& all, std::size_t head, std::size_t dim, std::size_t position,
                double theta) {
  numbers y(dim);
  for (std::size_t k = 0; k < dim; ++k) {
    const std::size_t pair = k % (dim / 2);
    const double angle =
        static_cast<double>(position) *
        std::pow(theta, -2.0 * static_cast<double>(pair) / static_cast<double>(dim));
    const double partner =
        k < dim / 2 ? -all[head * dim + k + dim / 2] : all[head * dim + k - dim / 2];
    y[k] = all[head * dim + k] * std::cos(angle) + partner * std::sin(angle);
  }
  return y;
}

/// The attention block's output for position `at`, before the output projection.
numbers attention_output(const model_config& config, const std::vector<numbers>& q,
                         const std::vector<numbers>& k, const std::vector<numbers>& v,
                         std::size_t at) {
  const std::size_t dim = static_cast<std::size_t>(config.head_dim());
  numbers mixed(static_cast<std::size_t>(config.dim));
  for (std::size_t head = 0; head < static_cast<std::size_t>(config.heads); ++head) {
    const std::size_t kv =
        head * static_cast<std::size_t>(config.kv_heads) / static_cast<std::size_t>(config.heads);
    const numbers query = rotated(q[at], head, dim, at, config.rope_theta);
    numbers weights;
    double total = 0;
    for (std::size_t past = 0; past <= at; ++past) {
      const numbers key = rotated(k[past], kv, dim, past, config.rope_theta);
      double score = 0;
      for (std::size_t c = 0; c < dim; ++c) score += query[c] * key[c];
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
      total += weights.back();
    }
    for (std::size_t past = 0; past <= at; ++past)
      for (std::size_t c = 0; c < dim; ++c)
        mixed[head * dim + c] += weights[past] / total * v[past][kv * dim + c];
  }
  return mixed;
}

void reference_layer(const model_config& config, const double_stage& w, int layer,
                     std::vector<numbers>& x) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  const auto get = [&](const char* name) { return tensor(w, prefix + name); };
  std::vector<numbers> q, k, v;
  for (const numbers& token : x) {
    const numbers in = normalised(token, get("input_layernorm.weight"), config.norm_epsilon);
    q.push_back(times(get("self_attn.q_proj.weight"), in, get("self_attn.q_proj.bias")));
    k.push_back(times(get("self_attn.k_proj.weight"), in, get("self_attn.k_proj.bias")));
    v.push_back(times(get("self_attn.v_proj.weight"), in, get("self_attn.v_proj.bias")));
  }
  for (std::size_t t = 0; t < x.size(); ++t) {
    const numbers mixed =
        times(get("self_attn.o_proj.weight"), attention_output(config, q, k, v, t));
    for (std::size_t c = 0; c < mixed.size(); ++c) x[t][c] += mixed[c];
    const numbers in =
        normalised(x[t], get("post_attention_layernorm.weight"), config.norm_epsilon);
    const numbers gate = times(get("mlp.gate_proj.weight"), in),
                  up = times(get("mlp.up_proj.weight"), in);
    numbers act(gate.size());
    for (std::size_t c = 0; c < act.size(); ++c)
      act[c] = gate[c] / (1 + std::exp(-gate[c])) * up[c];
    const numbers out = times(get("mlp.down_proj.weight"), act);
    for (std::size_t c = 0; c < out.size(); ++c) x[t][c] += out[c];
  }
}

double reference_loss(const model_config& config, const double_stage& w, const bytes& tokens,
                      const bytes& targets) {
  const std::span<const double> embedding = tensor(w, "model.embed_tokens.weight");
  const std::span<const double> head =
      config.tied_embeddings ? embedding : tensor(w, "lm_head.weight");
  const std::size_t dim = static_cast<std::size_t>(config.dim);
  double loss = 0;
  for (std::size_t start = 0; start < tokens.size(); start += length) {
    std::vector<numbers> x;
    for (std::size_t t = start; t < start + length; ++t) {
      const std::span<const double> row = embedding.subspan(tokens[t] * dim, dim);
      x.emplace_back(row.begin(), row.end());
    }
    for (int layer = 0; layer < config.layers; ++layer) reference_layer(config, w, layer, x);
    for (std::size_t t = 0; t < length; ++t) {
      const numbers logits =
          times(head, normalised(x[t], tensor(w, "model.norm.weight"), config.norm_epsilon));
      double total = 0;
      for (const double logit : logits) total += std::exp(logit);
      loss += std::log(total) - logits[targets[start + t]];
    }
  }
  return loss;
}

/// Both micro-batches forward and, if asked, backward; the loss as training counts it.
double run(double_stage& stage, bool backward) {
  const std::int64_t batch_tokens = 2 * stage.tokens();
  stage.begin_step(batch_tokens);
  double loss = 0;
  for (int m = 0; m < 2; ++m) {
    const bytes tokens = text(m), targets = text(m + 5);
    loss += stage.forward(m, {.tokens = tokens, .targets = targets});
    if (backward) stage.backward(m);
  }
  return loss / static_cast<double>(batch_tokens);
}

/// The derivative of `loss` by `x`: five points, error of fourth order.
double slope(double& x, const std::function<double()>& loss) {
  constexpr double step = 2e-4;
  const double kept = x;
  const auto at = [&](double shift) {
    x = kept + shift * step;
    return loss();
  };
  const double result = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step);
  x = kept;
  return result;
}

double largest(std::span<const double> values) {
  double max_value = 0;
  for (const double value : values) max_value = std::max(max_value, std::abs(value));
  return max_value;
}

class model_arithmetic : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const char* why = unsupported_processor()) GTEST_SKIP() << why;
  }
};

TEST_P(model_arithmetic, forward_matches_formulas) {
  const model_config config = small_config(GetParam());
  ASSERT_NE(config.heads, config.kv_heads);
  double_stage stage = perturbed_stage(config, 0, 2);
  stage.begin_step(1);
  const bytes tokens = text(3), targets = text(8);
  const double loss = stage.forward(0, {.tokens = tokens, .targets = targets});
  EXPECT_NEAR(loss, reference_loss(config, stage, tokens, targets), 1e-10 * loss);
}

TEST_P(model_arithmetic, gradient_of_every_tensor) {
  double_stage stage = perturbed_stage(small_config(GetParam()), 0, 2);
  run(stage, true);
  stage.finish_gradients();
  const numbers gradients(stage.gradients().begin(), stage.gradients().end());
  for (const parameter<double>& p : stage.parameters()) {
    const std::span<const double> analytic = std::span(gradients).subspan(
        static_cast<std::size_t>(p.gradient.data() - stage.gradients().data()), p.gradient.size());
    const double tolerance = 1e-6 * largest(analytic);
    ASSERT_GT(tolerance, 0) << p.name;
    // Of the token table, one number of each row that text() uses; of other tensors, varying rows
    // and columns.
    const bool by_token = p.value.size() == std::size_t{vocabulary} * 16;
    const std::size_t stride = by_token ? 23 * 16 + 1 : p.value.size() > 64 ? 13 : 3;
    for (std::size_t k = 0; k < p.value.size(); k += stride)
      EXPECT_NEAR(slope(p.value[k], [&] { return run(stage, false); }), analytic[k], tolerance)
          << p.name << '[' << k << ']';
  }
}

TEST_P(model_arithmetic, gradient_of_incoming_activations) {
  double_stage stage = perturbed_stage(small_config(GetParam()), 1, 2);
  numbers activations(stage.activations()), gradient(stage.activations());
  for (std::size_t k = 0; k < activations.size(); ++k) activations[k] = noise(k * 7);
  const bytes targets = text(2);
  const auto loss = [&] {
    stage.begin_step(stage.tokens());
    return stage.forward(0, {.activations = activations, .targets = targets}) / stage.tokens();
  };
  loss();
  stage.backward(0, {}, gradient);
  const double tolerance = 1e-6 * largest(gradient);
  for (std::size_t k = 0; k < activations.size(); ++k)
    EXPECT_NEAR(slope(activations[k], loss), gradient[k], tolerance) << k;
}

TEST_P(model_arithmetic, attention_is_causal) {
  double_stage stage = perturbed_stage(small_config(GetParam()), 0, 2);
  bytes tokens = text(0);
  // Another target at one position changes the loss by the difference of two of its logits.
  const auto logit_difference = [&](std::size_t position) {
    bytes targets = text(1);
    double losses[2];
    for (const int side : {0, 1}) {
      targets[position] = static_cast<std::uint8_t>(100 + side);
      stage.begin_step(1);
      losses[side] = stage.forward(0, {.tokens = tokens, .targets = targets});
    }
    return losses[0] - losses[1];
  };
  constexpr std::size_t changed = 4;
  numbers before, after;
  for (std::size_t t = 0; t < 2 * length; ++t) before.push_back(logit_difference(t));
  tokens[changed] = 250;
  for (std::size_t t = 0; t < 2 * length; ++t) after.push_back(logit_difference(t));
  for (std::size_t t = 0; t < 2 * length; ++t) {
    const bool sees_it = t >= changed && t < length;
    EXPECT_EQ(std::abs(before[t] - after[t]) > 1e-9, sees_it) << "position " << t;
  }
}

TEST_P(model_arithmetic, adamw_follows_its_recurrence) {
  double_stage stage = perturbed_stage(small_config(GetParam()), 0, 2);
  const adamw_options options;
  constexpr double rate = 0.01, clip = 0.25;
  const std::size_t count = stage.parameters().size();
  std::vector<numbers> first(count), second(count), value(count);
  for (int step = 1; step <= 3; ++step) {
    run(stage, true);
    stage.finish_gradients();
    for (std::size_t p = 0; p < count; ++p) {
      const parameter<double>& tensor = stage.parameters()[p];
      const bool decays =
          tensor.name.find("norm") == std::string::npos && !tensor.name.ends_with("bias");
      first[p].resize(tensor.value.size());
      second[p].resize(tensor.value.size());
      value[p].assign(tensor.value.begin(), tensor.value.end());
      for (std::size_t k = 0; k < value[p].size(); ++k) {
        const double g = tensor.gradient[k] * clip;
        first[p][k] = options.beta1 * first[p][k] + (1 - options.beta1) * g;
        second[p][k] = options.beta2 * second[p][k] + (1 - options.beta2) * g * g;
        const double m = first[p][k] / (1 - std::pow(options.beta1, step));
        const double v = second[p][k] / (1 - std::pow(options.beta2, step));
        if (decays) value[p][k] -= rate * options.weight_decay * value[p][k];
        value[p][k] -= rate * m / (std::sqrt(v) + options.epsilon);
      }
    }
    stage.apply(step, rate, clip, options);
    for (std::size_t p = 0; p < count; ++p)
      for (std::size_t k = 0; k < value[p].size(); ++k)
        ASSERT_NEAR(stage.parameters()[p].value[k], value[p][k], 1e-12)
            << stage.parameters()[p].name;
  }
}

INSTANTIATE_TEST_SUITE_P(models, model_arithmetic, testing::Values("llama-tiny", "qwen2-tiny"));

TEST(model_rotary, scores_depend_on_distance_only) {
  if (const char* why = unsupported_processor()) GTEST_SKIP() << why;
  const model_config config = find_model("llama-tiny");
  const layer_shape shape = shape_of(config, 1, 16);
  const workspace<double> work(shape, config.rope_theta);
  const std::size_t dim = static_cast<std::size_t>(config.head_dim());
  // One head, the same query and the same key at every position.
  aligned_array<double> q(16 * dim), k(16 * dim), rotated_q(16 * dim), rotated_k(16 * dim),
      back(16 * dim);
  for (std::size_t j = 0; j < q.size(); ++j)
    q.data()[j] = noise(j % dim), k.data()[j] = noise(j % dim + 99);
  for (const auto& [from, to] : {std::pair(&q, &rotated_q), std::pair(&k, &rotated_k)})
    kernels::rotate_to_heads(shape.attention, 1, work.cosine.data(), work.sine.data(),
                             std::as_const(*from).data(), to->data());
  const auto score = [&](std::size_t i, std::size_t j) {
    double sum = 0;
    for (std::size_t c = 0; c < dim; ++c)
      sum += rotated_q.data()[i * dim + c] * rotated_k.data()[j * dim + c];
    return sum;
  };
  for (std::size_t i = 1; i < 16; ++i)
    for (std::size_t j = 1; j <= i; ++j) EXPECT_NEAR(score(i, j), score(i - 1, j - 1), 1e-12);
  EXPECT_GT(std::abs(score(5, 0) - score(4, 0)), 1e-3);
  kernels::rotate_from_heads(shape.attention, 1, work.cosine.data(), work.sine.data(),
                             std::as_const(rotated_q).data(), back.data());
  for (std::size_t j = 0; j < q.size(); ++j) EXPECT_NEAR(back.data()[j], q.data()[j], 1e-12);
}

}  // namespace
}  // namespace tandem::train
