#include "model/stage_state.hpp"

#include <algorithm>
#include <stdexcept>

#include "model/kernels/kernels.hpp"
#include "model/tensors.hpp"

namespace tandem::train {
namespace {

int length_of(const model_config& config, const stage_options& options) {
  const int length = options.sequence_length > 0 ? options.sequence_length : config.sequence_length;
  if (length < 1) throw std::invalid_argument("stage: the sequence length must be positive");
  return length;
}

}  // namespace

template <class Scalar>
basic_stage<Scalar>::state::state(const model_config& model, const stage_options& requested)
    : config(model),
      options(requested),
      shape(shape_of(model, requested.sequences, length_of(model, requested))),
      first(requested.first_layer == 0),
      last(requested.last_layer == model.layers),
      holds_both_uses(model.tied_embeddings && first && last),
      work(shape, model.rope_theta) {
  kernels::fix_block_sizes();
  lay_out_parameters();
  bind_weights();
  make_slots();
}

template <class Scalar>
void basic_stage<Scalar>::state::lay_out_parameters() {
  const std::vector<tensor_info> table = model_tensors(config);
  table_size = table.size();
  std::vector<std::size_t> held;
  std::size_t total = 0;
  for (std::size_t position = 0; position < table.size(); ++position) {
    const int layer = table[position].layer;
    const bool tied_head = config.tied_embeddings && last && layer == -1;
    const bool inside = layer >= options.first_layer && layer < options.last_layer;
    if (!(inside || (first && layer == -1) || (last && layer == config.layers) || tied_head))
      continue;
    held.push_back(position);
    total += padded<Scalar>(table[position].size());
  }
  const std::size_t second_use = holds_both_uses ? padded<Scalar>(table.front().size()) : 0;
  values = aligned_array<Scalar>(total);
  gradients = aligned_array<Scalar>(total + second_use);
  first_moments = aligned_array<Scalar>(total);
  second_moments = aligned_array<Scalar>(total);

  std::size_t offset = 0;
  for (const std::size_t position : held) {
    const tensor_info& tensor = table[position];
    parameters.push_back({tensor.name, static_cast<int>(position),
                          values.span().subspan(offset, tensor.size()),
                          gradients.span().subspan(offset, tensor.size())});
    decays.push_back(tensor.is_matrix());
    fill_initial<Scalar>(tensor, options.seed, parameters.back().value);
    offset += padded<Scalar>(tensor.size());
  }
}

template <class Scalar>
void basic_stage<Scalar>::state::bind_weights() {
  std::size_t next = 0;
  const auto next_weight = [&](bool present = true) -> weight<Scalar> {
    if (!present) return {};
    parameter<Scalar>& taken = parameters[next++];
    return {taken.value.data(), taken.gradient.data()};
  };
  const bool bias = config.qkv_bias;
  if (first || (last && config.tied_embeddings)) embedding = next_weight();
  for (int layer = options.first_layer; layer < options.last_layer; ++layer) {
    layer_weights<Scalar> w;
    w.attention_norm = next_weight();
    w.query = next_weight();
    w.query_bias = next_weight(bias);
    w.key = next_weight();
    w.key_bias = next_weight(bias);
    w.value = next_weight();
    w.value_bias = next_weight(bias);
    w.output = next_weight();
    w.mlp_norm = next_weight();
    w.gate = next_weight();
    w.up = next_weight();
    w.down = next_weight();
    layers.push_back(w);
  }
  if (!last) return;
  final_norm = next_weight();
  head_matrix = config.tied_embeddings ? embedding : next_weight();
  if (holds_both_uses) head_matrix.gradient = gradients.data() + values.size();
}

template <class Scalar>
void basic_stage<Scalar>::state::make_slots() {
  const std::size_t tokens = static_cast<std::size_t>(shape.tokens);
  for (int s = 0; s < options.stash; ++s) {
    slot<Scalar> made;
    if (first) made.tokens.resize(tokens);
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      made.layers.emplace_back(shape);
      if (options.splits_backward) made.pending.emplace_back(shape);
    }
    if (last) {
      made.normed = aligned_array<Scalar>(work.residual.size());
      made.inverse = aligned_array<Scalar>(tokens);
      made.logit_gradient = aligned_array<Scalar>(tokens * vocabulary);
    }
    slots.push_back(std::move(made));
  }
}

template <class Scalar>
void basic_stage<Scalar>::state::embed(std::span<const std::uint8_t> tokens) {
  Scalar* to = work.residual.data();
  for (const std::uint8_t token : tokens)
    to = std::copy_n(embedding.value + token * shape.dim, shape.dim, to);
}

template <class Scalar>
void basic_stage<Scalar>::state::embed_backward(std::span<const std::uint8_t> tokens) {
  const Scalar* from = work.residual_gradient.data();
  for (const std::uint8_t token : tokens) {
    Scalar* to = embedding.gradient + token * shape.dim;
    for (kernels::index k = 0; k < shape.dim; ++k) to[k] += *from++;
  }
}

template <class Scalar>
double basic_stage<Scalar>::state::head(slot<Scalar>& slot, std::span<const std::uint8_t> targets) {
  kernels::rms_norm_forward<Scalar>(shape.tokens, shape.dim, shape.norm_epsilon,
                                    work.residual.data(), final_norm.value, slot.normed.data(),
                                    slot.inverse.data(), work.input.data());
  project<Scalar>(shape.tokens, shape.dim, vocabulary, work.input.data(), head_matrix, {}, false,
                  slot.logit_gradient.data());
  return kernels::cross_entropy<Scalar>(shape.tokens, vocabulary, gradient_scale, targets.data(),
                                        slot.logit_gradient.data());
}

template <class Scalar>
void basic_stage<Scalar>::state::head_backward(slot<Scalar>& slot) {
  project_backward_input<Scalar>(shape.tokens, shape.dim, vocabulary, head_matrix,
                                 slot.logit_gradient.data(), false, work.input_gradient.data());
  work.residual_gradient.clear();
  kernels::rms_norm_backward<Scalar>(shape.tokens, shape.dim, work.input_gradient.data(),
                                     slot.normed.data(), slot.inverse.data(), final_norm.value,
                                     work.residual_gradient.data(), final_norm.gradient);
}

template <class Scalar>
void basic_stage<Scalar>::state::head_backward_weights(slot<Scalar>& slot) {
  kernels::rms_norm_recompute<Scalar>(shape.tokens, shape.dim, slot.normed.data(), final_norm.value,
                                      work.input.data());
  project_backward_weights<Scalar>(shape.tokens, shape.dim, vocabulary, work.input.data(),
                                   head_matrix, {}, slot.logit_gradient.data());
}

template <class Scalar>
void basic_stage<Scalar>::state::backward(int micro_batch, std::span<const Scalar> gradient_out,
                                          std::span<Scalar> gradient_in, bool splits) {
  slot<Scalar>& slot = slot_of(micro_batch);
  if (micro_batch != next_backward || slot.micro_batch != micro_batch)
    throw std::logic_error("stage: backward of micro-batch " + std::to_string(micro_batch) +
                           ", but " + std::to_string(next_backward) +
                           " is next, after its forward");
  if (last && !splits) head_backward_weights(slot);
  if (last)
    head_backward(slot);
  else
    std::copy(gradient_out.begin(), gradient_out.end(), work.residual_gradient.data());
  for (std::size_t layer = layers.size(); layer-- > 0;)
    layer_backward(shape, layers[layer], slot.layers[layer], work,
                   splits ? &slot.pending[layer] : nullptr);
  if (first)
    embed_backward(slot.tokens);
  else
    std::copy_n(work.residual_gradient.data(), work.residual.size(), gradient_in.begin());
  ++next_backward;
}

template struct basic_stage<float>::state;
template struct basic_stage<double>::state;

}  // namespace tandem::train
