// The trainer's model: its bits do not depend on the division into stages, it learns, and wrong
// calls are refused. tests/unit/model_arithmetic_test.cpp tests the arithmetic.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "model/stage.hpp"
#include "model/tensors.hpp"

namespace tandem::train {
namespace {

constexpr int micro_batches = 3;
constexpr double max_norm = 0.5;

struct batch {
  std::vector<std::vector<std::uint8_t>> tokens, targets;  ///< one per micro-batch
};

/// Sequences of a text at positions chosen by step and micro-batch.
batch batch_of(int step, int count, int sequences, int length) {
  const std::string text =
      "It is a truth universally acknowledged, that a single process in possession of a good "
      "gradient, "
      "must be in want of a peer. However little known the feelings or views of such a process may "
      "be... ";
  batch made;
  for (int m = 0; m < count; ++m) {
    std::vector<std::uint8_t> tokens, targets;
    for (int s = 0; s < sequences; ++s) {
      const int start = (step * 31 + m * 17 + s * 7) % static_cast<int>(text.size());
      for (int k = 0; k < length; ++k) {
        const auto at = [&](int offset) {
          return static_cast<std::uint8_t>(
              text[static_cast<std::size_t>(start + offset) % text.size()]);
        };
        tokens.push_back(at(k));
        targets.push_back(at(k + 1));
      }
    }
    made.tokens.push_back(tokens);
    made.targets.push_back(targets);
  }
  return made;
}

/// A pipeline whose messages are copies: stage k holds layers [cuts[k], cuts[k + 1]).
class chain {
 public:
  chain(const model_config& config, const std::vector<int>& cuts, int stash, bool splits = false)
      : splits_(splits) {
    for (std::size_t k = 0; k + 1 < cuts.size(); ++k)
      stages.emplace_back(config, stage_options{.first_layer = cuts[k],
                                                .last_layer = cuts[k + 1],
                                                .seed = 7,
                                                .sequences = 2,
                                                .stash = stash,
                                                .splits_backward = splits});
    for (std::size_t k = 0; k < stages.size(); ++k)
      wires_.emplace_back(stages[k].is_first() ? 0 : stages[k].activations());
    wires_.emplace_back();
  }

  double forward(int m, const batch& data) {
    double loss = 0;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      stage_input<float> input{.activations = wires_[k]};
      if (stages[k].is_first()) input.tokens = data.tokens[static_cast<std::size_t>(m)];
      if (stages[k].is_last()) input.targets = data.targets[static_cast<std::size_t>(m)];
      loss += stages[k].forward(m, input, wires_[k + 1]);
    }
    return loss;
  }

  void backward(int m) {
    for (std::size_t k = stages.size(); k-- > 0;) {
      if (splits_) {
        stages[k].backward_input(m, wires_[k + 1], wires_[k]);
      } else {
        stages[k].backward(m, wires_[k + 1], wires_[k]);
      }
    }
    // Weight parts one micro-batch late.
    if (splits_ && m > 0) weights(m - 1);
  }
  void weights(int m) {
    for (model_stage& s : stages) s.backward_weights(m);
  }

  /// Returns the mean loss; with `early`, backward runs as soon as the stash allows.
  double step(int number, const batch& data, bool early, double rate = 1e-2) {
    const int count = static_cast<int>(data.tokens.size());
    const std::int64_t tokens = stages.front().tokens() * count;
    for (model_stage& s : stages) s.begin_step(tokens);
    double loss = 0;
    for (int m = 0; m < count; ++m) {
      loss += forward(m, data);
      if (early && m > 0) backward(m - 1);
    }
    for (int m = early ? count - 1 : 0; m < count; ++m) backward(m);
    if (splits_) weights(count - 1);
    update(number, rate);
    return loss / static_cast<double>(tokens);
  }

  std::vector<model_stage> stages;
  double last_clip = 0;

 private:
  void update(int number, double rate) {
    const std::span<const float> front = stages.front().tied_gradient();
    const std::span<const float> back = stages.back().tied_gradient();
    const std::vector<float> to_back(front.begin(), front.end()),
        to_front(back.begin(), back.end());
    for (model_stage& s : stages)
      s.finish_gradients(&s == &stages.front()  ? to_front
                         : &s == &stages.back() ? to_back
                                                : nothing_);
    std::vector<double> table(stages.front().squared_norms().size());
    for (const model_stage& s : stages) {
      const std::vector<double> part = s.squared_norms();
      for (std::size_t k = 0; k < table.size(); ++k) table[k] += part[k];
    }
    last_clip = clip_scale(table, max_norm);
    for (model_stage& s : stages) s.apply(number, rate, last_clip);
  }

  bool splits_;
  std::vector<std::vector<float>> wires_;
  const std::vector<float> nothing_;
};

bool same_bits(double a, double b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

const parameter<float>& named(const model_stage& single, const std::string& name) {
  for (const parameter<float>& p : single.parameters())
    if (p.name == name) return p;
  throw std::runtime_error("no parameter " + name);
}

/// Every tensor of `cut` has the bits of the same tensor in `single`; each tensor of the model is
/// somewhere.
void expect_same_parameters(const chain& single, const chain& cut, int step) {
  std::vector<int> found(single.stages.front().parameters().size());
  for (const model_stage& s : cut.stages)
    for (const parameter<float>& p : s.parameters()) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.value.data()) % 64, 0u) << p.name;
      const parameter<float>& wanted = named(single.stages.front(), p.name);
      ASSERT_EQ(p.value.size(), wanted.value.size());
      EXPECT_EQ(std::memcmp(p.value.data(), wanted.value.data(), p.value.size_bytes()), 0)
          << p.name << " after step " << step;
      ++found[static_cast<std::size_t>(p.position)];
    }
  for (const int times : found) EXPECT_GE(times, 1);
}

/// A preset, or "odd": no size is a multiple of the vector length, so rows are unaligned.
model_config config_of(const std::string& name) {
  if (name != "odd") return find_model(name);
  model_config config = find_model("llama-tiny");
  config.dim = 30;
  config.heads = 3;
  config.kv_heads = 1;
  config.hidden = 43;
  config.sequence_length = 13;
  return config;
}

struct partition {
  const char* model;
  std::vector<int> cuts;
  bool early;
};

void PrintTo(const partition& p, std::ostream* out) {
  *out << p.model << (p.early ? ", early backward" : "") << ", cut at";
  for (const int cut : p.cuts) *out << ' ' << cut;
}

class model_partition : public testing::TestWithParam<partition> {};

TEST_P(model_partition, matches_single_stage_bitwise) {
  if (const char* why = unsupported_processor()) GTEST_SKIP() << why;
  const model_config config = config_of(GetParam().model);
  chain single(config, {0, config.layers}, micro_batches);
  const int stash = GetParam().early ? 3 : micro_batches;
  chain cut(config, GetParam().cuts, stash);
  chain split(config, GetParam().cuts, stash, true);
  expect_same_parameters(single, cut, 0);
  for (int step = 1; step <= 4; ++step) {
    const batch data = batch_of(step, micro_batches, 2, config.sequence_length);
    const double wanted = single.step(step, data, false);
    const double got = cut.step(step, data, GetParam().early);
    EXPECT_TRUE(same_bits(wanted, got)) << wanted << " and " << got << " at step " << step;
    EXPECT_LT(single.last_clip, 1) << "the test is to clip";
    EXPECT_TRUE(same_bits(single.last_clip, cut.last_clip));
    expect_same_parameters(single, cut, step);
    EXPECT_TRUE(same_bits(wanted, split.step(step, data, GetParam().early)));
    expect_same_parameters(single, split, step);
  }
}

INSTANTIATE_TEST_SUITE_P(cuts, model_partition,
                         testing::Values(partition{"llama-tiny", {0, 4}, true},
                                         partition{"llama-tiny", {0, 2, 4}, false},
                                         partition{"llama-tiny", {0, 1, 4}, true},
                                         partition{"llama-tiny", {0, 1, 2, 3, 4}, true},
                                         partition{"odd", {0, 1, 2, 3, 4}, true},
                                         partition{"odd", {0, 3, 4}, false},
                                         partition{"qwen2-tiny", {0, 4}, true},
                                         partition{"qwen2-tiny", {0, 2, 4}, true},
                                         partition{"qwen2-tiny", {0, 3, 4}, false},
                                         partition{"qwen2-tiny", {0, 1, 2, 3, 4}, false}));

class model_learns : public testing::TestWithParam<const char*> {};

TEST_P(model_learns, a_short_text) {
  if (const char* why = unsupported_processor()) GTEST_SKIP() << why;
  const model_config config = find_model(GetParam());
  chain pipeline(config, {0, 2, 4}, 2);
  const batch data = batch_of(0, 2, 2, config.sequence_length);
  const double first = pipeline.step(1, data, true, 5e-3);
  double last = 0;
  for (int step = 2; step <= 80; ++step) last = pipeline.step(step, data, true, 5e-3);
  EXPECT_NEAR(first, std::log(256), 0.3);
  EXPECT_LT(last, first / 4);
}

INSTANTIATE_TEST_SUITE_P(models, model_learns, testing::Values("llama-tiny", "qwen2-tiny"));

TEST(model_tensors, are_initialized_from_seed_and_name) {
  const model_config config = find_model("qwen2-small");
  std::vector<std::vector<double>> filled;
  for (const tensor_info& tensor : model_tensors(config)) {
    std::vector<double> values(tensor.size()), again(tensor.size()), other(tensor.size());
    fill_initial<double>(tensor, 1, values);
    fill_initial<double>(tensor, 1, again);
    fill_initial<double>(tensor, 2, other);
    EXPECT_EQ(values, again);
    EXPECT_EQ(values != other, tensor.deviation > 0) << tensor.name;
    double sum = 0, squares = 0;
    for (const double value : values) sum += value, squares += value * value;
    const double mean = sum / static_cast<double>(values.size());
    EXPECT_NEAR(mean, tensor.mean, 0.05 * tensor.deviation) << tensor.name;
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size()) - mean * mean),
                tensor.deviation, 0.02 * tensor.deviation + 1e-12)
        << tensor.name;
    for (const std::vector<double>& before : filled)
      EXPECT_TRUE(tensor.deviation == 0 || values != before) << tensor.name;
    filled.push_back(values);
  }
}

TEST(model_config, unknown_names_list_known_presets) {
  try {
    find_model("gpt-17");
    FAIL() << "gpt-17 was found";
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("'gpt-17'"), std::string::npos) << text;
    for (const std::string& name : model_names())
      EXPECT_NE(text.find(name), std::string::npos) << text;
  }
}

TEST(model_config, presets_are_consistent) {
  ASSERT_EQ(model_names().size(), 6u);
  for (const std::string& name : model_names()) {
    const model_config config = find_model(name);
    EXPECT_NO_THROW(check(config)) << name;
    EXPECT_EQ(config.tied_embeddings, name.starts_with("qwen2")) << name;
    EXPECT_GT(flops_per_token(config, config.sequence_length), 6.0 * 0.6 * parameter_count(config));
  }
  EXPECT_EQ(parameter_count(find_model("llama-small")), 791680);
  model_config odd = find_model("llama-tiny");
  odd.kv_heads = 3;
  EXPECT_THROW(check(odd), std::invalid_argument);
}

TEST(model_stage, refuses_wrong_sizes_and_keeps_its_state) {
  if (const char* why = unsupported_processor()) GTEST_SKIP() << why;
  const model_config config = find_model("llama-tiny");
  EXPECT_THROW(model_stage(config, {.first_layer = 2, .last_layer = 5}), std::invalid_argument);
  chain a(config, {0, 4}, 2), b(config, {0, 4}, 2);
  const batch data = batch_of(1, 1, 2, config.sequence_length);
  model_stage& stage = a.stages.front();
  EXPECT_THROW(stage.begin_step(0), std::invalid_argument);
  EXPECT_THROW(stage.forward(0, {.tokens = data.tokens[0]}), std::invalid_argument);
  std::vector<float> surplus(stage.activations());
  EXPECT_THROW(stage.forward(0, {.tokens = data.tokens[0], .targets = data.targets[0]}, surplus),
               std::invalid_argument);
  EXPECT_THROW(stage.finish_gradients(surplus), std::invalid_argument);
  EXPECT_TRUE(same_bits(a.step(1, data, false), b.step(1, data, false)));
}

TEST(model_stage, refuses_calls_out_of_order) {
  if (const char* why = unsupported_processor()) GTEST_SKIP() << why;
  const model_config config = find_model("llama-tiny");
  chain one(config, {0, 4}, 2);
  const batch data = batch_of(1, 3, 2, config.sequence_length);
  model_stage& stage = one.stages.front();
  EXPECT_THROW(one.forward(0, data), std::logic_error) << "no step has begun";
  stage.begin_step(100);
  EXPECT_THROW(one.backward(0), std::logic_error) << "no forward";
  one.forward(0, data);
  EXPECT_THROW(one.forward(0, data), std::logic_error) << "stashed already";
  one.forward(1, data);
  EXPECT_THROW(one.forward(2, data), std::logic_error) << "the stash is full";
  EXPECT_THROW(one.backward(1), std::logic_error) << "0 is next";
  one.backward(0);
  EXPECT_THROW(one.forward(0, data), std::logic_error) << "0 is done";
  one.forward(2, data);
  EXPECT_THROW(stage.apply(1, 0.1, 1), std::logic_error) << "gradients not finished";
  stage.finish_gradients();
  EXPECT_THROW(stage.finish_gradients(), std::logic_error) << "finished twice";
  EXPECT_THROW(stage.apply(0, 0.1, 1), std::invalid_argument);
}

TEST(model_optimizer, follows_warm_up_and_cosine_schedule) {
  const learning_rate_schedule schedule{.peak = 1, .floor = 0.1, .warmup_steps = 4, .steps = 24};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 14), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 24), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 99), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate({.peak = 1, .floor = 0, .warmup_steps = 0, .steps = 1}, 1), 0);
}

TEST(model_optimizer, clips_by_global_norm) {
  const std::vector<double> table{9, 0, 16};
  EXPECT_DOUBLE_EQ(clip_scale(table, 1), 0.2);
  EXPECT_DOUBLE_EQ(clip_scale(table, 5), 1);
  EXPECT_DOUBLE_EQ(clip_scale(table, 0), 1);
}

}  // namespace
}  // namespace tandem::train
