#include "model/stage.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "model/kernels/built_for.hpp"
#include "model/kernels/kernels.hpp"
#include "model/stage_state.hpp"

namespace tandem::train {
namespace {

void require_size(std::size_t size, std::size_t expected, const char* what) {
  if (size != expected)
    throw std::invalid_argument(std::string("stage: ") + what + ": " + std::to_string(size) +
                                " values given, " + std::to_string(expected) + " expected");
}

void check(const model_config& config, const stage_options& options) {
  check(config);
  if (options.first_layer < 0 || options.first_layer >= options.last_layer ||
      options.last_layer > config.layers)
    throw std::invalid_argument("stage: layers [" + std::to_string(options.first_layer) + ", " +
                                std::to_string(options.last_layer) +
                                ") are not a range within the model's " +
                                std::to_string(config.layers) + " layers");
  if (options.sequences < 1 || options.sequence_length < 0 || options.stash < 1)
    throw std::invalid_argument("stage: sequences, sequence length and stash must be positive");
}

}  // namespace

template <class Scalar>
basic_stage<Scalar>::basic_stage(const model_config& config, const stage_options& options) {
  check(config, options);
  state_ = std::make_unique<state>(config, options);
}

template <class Scalar>
basic_stage<Scalar>::~basic_stage() = default;
template <class Scalar>
basic_stage<Scalar>::basic_stage(basic_stage&&) noexcept = default;
template <class Scalar>
basic_stage<Scalar>& basic_stage<Scalar>::operator=(basic_stage&&) noexcept = default;

template <class Scalar>
bool basic_stage<Scalar>::is_first() const {
  return state_->first;
}

template <class Scalar>
bool basic_stage<Scalar>::is_last() const {
  return state_->last;
}

template <class Scalar>
int basic_stage<Scalar>::tokens() const {
  return static_cast<int>(state_->shape.tokens);
}

template <class Scalar>
std::size_t basic_stage<Scalar>::activations() const {
  return state_->work.residual.size();
}

template <class Scalar>
void basic_stage<Scalar>::save(snapshot& into) const {
  const state& s = *state_;
  into.values.assign(s.values.data(), s.values.data() + s.values.size());
  into.first_moments.assign(s.first_moments.data(),
                            s.first_moments.data() + s.first_moments.size());
  into.second_moments.assign(s.second_moments.data(),
                             s.second_moments.data() + s.second_moments.size());
}

template <class Scalar>
void basic_stage<Scalar>::restore(const snapshot& from) {
  state& s = *state_;
  require_size(from.values.size(), s.values.size(), "snapshot");
  std::copy(from.values.begin(), from.values.end(), s.values.data());
  std::copy(from.first_moments.begin(), from.first_moments.end(), s.first_moments.data());
  std::copy(from.second_moments.begin(), from.second_moments.end(), s.second_moments.data());
}

template <class Scalar>
void basic_stage<Scalar>::begin_step(std::int64_t batch_tokens) {
  if (batch_tokens < 1) throw std::invalid_argument("stage: a batch has at least one token");
  state& s = *state_;
  s.gradients.clear();
  for (slot<Scalar>& slot : s.slots) slot.micro_batch = unused;
  s.gradient_scale = 1 / static_cast<double>(batch_tokens);
  s.next_backward = 0;
  s.next_weights = 0;
  s.finished = false;
}

template <class Scalar>
double basic_stage<Scalar>::forward(int micro_batch, const stage_input<Scalar>& input,
                                    std::span<Scalar> activations_out) {
  state& s = *state_;
  const std::size_t token_count = static_cast<std::size_t>(s.shape.tokens);
  require_size(input.tokens.size(), s.first ? token_count : 0, "tokens");
  require_size(input.activations.size(), s.first ? 0 : activations(), "incoming activations");
  require_size(input.targets.size(), s.last ? token_count : 0, "targets");
  require_size(activations_out.size(), s.last ? 0 : activations(), "outgoing activations");
  if (s.gradient_scale == 0) throw std::logic_error("stage: forward before begin_step");
  if (micro_batch < s.next_backward || s.slot_of(micro_batch).micro_batch != unused)
    throw std::logic_error("stage: no free slot to stash micro-batch " +
                           std::to_string(micro_batch) + " before backward of " +
                           std::to_string(s.next_backward));
  slot<Scalar>& slot = s.slot_of(micro_batch);
  slot.micro_batch = micro_batch;
  if (s.first) {
    std::copy(input.tokens.begin(), input.tokens.end(), slot.tokens.begin());
    s.embed(input.tokens);
  } else {
    std::copy(input.activations.begin(), input.activations.end(), s.work.residual.data());
  }
  for (std::size_t layer = 0; layer < s.layers.size(); ++layer)
    layer_forward(s.shape, s.layers[layer], slot.layers[layer], s.work);
  if (s.last) return s.head(slot, input.targets);
  std::copy_n(s.work.residual.data(), activations(), activations_out.begin());
  return 0;
}

template <class Scalar>
void basic_stage<Scalar>::backward(int micro_batch, std::span<const Scalar> gradient_out,
                                   std::span<Scalar> gradient_in) {
  state& s = *state_;
  require_size(gradient_out.size(), s.last ? 0 : activations(), "gradient of outgoing activations");
  require_size(gradient_in.size(), s.first ? 0 : activations(), "gradient of incoming activations");
  if (s.next_weights != s.next_backward)
    throw std::logic_error("stage: backward before the weight part of micro-batch " +
                           std::to_string(s.next_weights));
  s.backward(micro_batch, gradient_out, gradient_in, false);
  s.slot_of(micro_batch).micro_batch = unused;
  ++s.next_weights;
}

template <class Scalar>
void basic_stage<Scalar>::backward_input(int micro_batch, std::span<const Scalar> gradient_out,
                                         std::span<Scalar> gradient_in) {
  state& s = *state_;
  require_size(gradient_out.size(), s.last ? 0 : activations(), "gradient of outgoing activations");
  require_size(gradient_in.size(), s.first ? 0 : activations(), "gradient of incoming activations");
  if (!s.options.splits_backward)
    throw std::logic_error("stage: it was made without split backwards");
  s.backward(micro_batch, gradient_out, gradient_in, true);
}

template <class Scalar>
void basic_stage<Scalar>::backward_weights(int micro_batch) {
  state& s = *state_;
  if (micro_batch != s.next_weights || micro_batch >= s.next_backward)
    throw std::logic_error("stage: weight part of micro-batch " + std::to_string(micro_batch) +
                           ", but " + std::to_string(s.next_weights) +
                           " is next, after its input part");
  slot<Scalar>& slot = s.slot_of(micro_batch);
  if (s.last) s.head_backward_weights(slot);
  for (std::size_t layer = s.layers.size(); layer-- > 0;)
    layer_backward_weights(s.shape, s.layers[layer], slot.layers[layer], slot.pending[layer],
                           s.work);
  slot.micro_batch = unused;
  ++s.next_weights;
}

template <class Scalar>
const std::vector<parameter<Scalar>>& basic_stage<Scalar>::parameters() const {
  return state_->parameters;
}

template <class Scalar>
std::span<Scalar> basic_stage<Scalar>::values() {
  return state_->values.span();
}

template <class Scalar>
std::span<Scalar> basic_stage<Scalar>::gradients() {
  return state_->gradients.span();
}

template <class Scalar>
std::span<const Scalar> basic_stage<Scalar>::tied_gradient() const {
  const state& s = *state_;
  if (!s.config.tied_embeddings || s.first == s.last) return {};
  return s.parameters.front().gradient;
}

template <class Scalar>
void basic_stage<Scalar>::finish_gradients(std::span<const Scalar> tied_gradient_of_other_end) {
  state& s = *state_;
  require_size(tied_gradient_of_other_end.size(), tied_gradient().size(), "tied gradient");
  if (s.finished) throw std::logic_error("stage: finish_gradients was already called in this step");
  std::span<const Scalar> other = tied_gradient_of_other_end;
  if (s.holds_both_uses) other = {s.head_matrix.gradient, s.parameters.front().gradient.size()};
  for (std::size_t k = 0; k < other.size(); ++k) s.parameters.front().gradient[k] += other[k];
  s.finished = true;
}

template <class Scalar>
std::vector<double> basic_stage<Scalar>::squared_norms() const {
  const state& s = *state_;
  std::vector<double> table(s.table_size, 0.0);
  for (const parameter<Scalar>& p : s.parameters) {
    const bool counted_by_first_stage = p.position == 0 && !s.first;
    if (counted_by_first_stage) continue;
    table[static_cast<std::size_t>(p.position)] = kernels::squared_norm<Scalar>(
        static_cast<kernels::index>(p.gradient.size()), p.gradient.data());
  }
  return table;
}

template <class Scalar>
void basic_stage<Scalar>::apply(int step, double learning_rate, double clip_scale,
                                const adamw_options& options) {
  state& s = *state_;
  if (step < 1) throw std::invalid_argument("stage: steps count from 1");
  if (!s.finished) throw std::logic_error("stage: apply before finish_gradients");
  kernels::adamw_factors factors{.clip = clip_scale,
                                 .beta1 = options.beta1,
                                 .beta2 = options.beta2,
                                 .keep = 1,
                                 .rate = learning_rate / (1 - std::pow(options.beta1, step)),
                                 .root_scale = 1 / std::sqrt(1 - std::pow(options.beta2, step)),
                                 .epsilon = options.epsilon};
  for (std::size_t k = 0; k < s.parameters.size(); ++k) {
    const parameter<Scalar>& p = s.parameters[k];
    factors.keep = s.decays[k] ? 1 - learning_rate * options.weight_decay : 1;
    const std::ptrdiff_t offset = p.value.data() - s.values.data();
    kernels::adamw<Scalar>(static_cast<kernels::index>(p.value.size()), factors, p.gradient.data(),
                           s.first_moments.data() + offset, s.second_moments.data() + offset,
                           p.value.data());
  }
}

template class basic_stage<float>;
template class basic_stage<double>;

const char* unsupported_processor() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (kernels::built_for.avx2 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")))
    return "the trainer was built for CPUs with AVX2 and FMA, which this CPU lacks: build it with "
           "-DTANDEM_TRAINER_ARCH=";
  if (kernels::built_for.avx512 && !__builtin_cpu_supports("avx512f"))
    return "the trainer was built for CPUs with AVX-512, which this CPU lacks: build it with "
           "-DTANDEM_TRAINER_ARCH=x86-64-v3";
#endif
  return nullptr;
}

}  // namespace tandem::train
