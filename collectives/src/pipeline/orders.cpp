#include "pipeline/orders.hpp"

#include <algorithm>
#include <array>

namespace tandem::detail {
namespace {

using kind = pipeline_step::kind;

/// Steps of two chunks in their order. Micro-batches beyond the last are left out, so that an order
/// that needs a minimum of them serves for fewer.
class v_steps {
 public:
  explicit v_steps(int micro_batches) : micro_batches_(micro_batches) {}

  void forward(int chunk) { add(kind::forward, forwards[at(chunk)]++, chunk); }
  void input(int chunk) { add(kind::backward_input, inputs[at(chunk)]++, chunk); }
  void weights(int chunk) { add(kind::backward_weights, weight_parts[at(chunk)]++, chunk); }
  void backward(int chunk) {
    input(chunk);
    weights(chunk);
  }

  static std::size_t at(int chunk) { return static_cast<std::size_t>(chunk); }
  std::array<int, 2> forwards{}, inputs{}, weight_parts{};
  pipeline_steps steps;

 private:
  void add(kind what, int micro_batch, int chunk) {
    if (micro_batch < micro_batches_) steps.push_back({what, micro_batch, chunk});
  }
  int micro_batches_;
};

}  // namespace

pipeline_steps gpipe_order(int micro_batches) {
  pipeline_steps steps;
  for (int m = 0; m < micro_batches; ++m) steps.push_back({kind::forward, m});
  for (int m = 0; m < micro_batches; ++m) steps.push_back({kind::backward, m});
  return steps;
}

pipeline_steps one_f_one_b_order(int rank, int ranks, int micro_batches) {
  const int ahead = std::min(ranks - rank - 1, micro_batches);
  pipeline_steps steps;
  steps.reserve(2 * static_cast<std::size_t>(micro_batches));
  for (int m = 0; m < ahead; ++m) steps.push_back({kind::forward, m});
  for (int m = ahead; m < micro_batches; ++m) {
    steps.push_back({kind::forward, m});
    steps.push_back({kind::backward, m - ahead});
  }
  for (int m = micro_batches - ahead; m < micro_batches; ++m) steps.push_back({kind::backward, m});
  return steps;
}

pipeline_steps interleaved_order(int rank, int ranks, int micro_batches, int chunks) {
  if (chunks == 1) return one_f_one_b_order(rank, ranks, micro_batches);
  pipeline_steps steps;
  steps.reserve(2 * static_cast<std::size_t>(micro_batches) * static_cast<std::size_t>(chunks));
  // The order is that of whole groups of `ranks` micro-batches: with a shorter group the last rank
  // would hand over late and ranks would wait for each other. A group is computed in one chunk
  // before the next chunk has its turn, backwards from the last chunk on.
  const auto add = [&](kind what, int index) {
    const int turn = index / ranks;
    const int micro_batch = turn / chunks * ranks + index % ranks;
    const int chunk = turn % chunks;
    if (micro_batch >= micro_batches) return;
    steps.push_back({what, micro_batch, what == kind::forward ? chunk : chunks - 1 - chunk});
  };
  const int planned = (micro_batches + ranks - 1) / ranks * ranks * chunks;
  const int ahead = std::min(planned, 2 * (ranks - rank - 1) + (chunks - 1) * ranks);
  for (int i = 0; i < ahead; ++i) add(kind::forward, i);
  for (int i = ahead; i < planned; ++i) {
    add(kind::forward, i);
    add(kind::backward, i - ahead);
  }
  for (int i = planned - ahead; i < planned; ++i) add(kind::backward, i);
  return steps;
}

pipeline_steps zb_h1_order(int rank, int ranks, int micro_batches) {
  const int ahead = std::min(ranks - rank - 1, micro_batches);
  pipeline_steps steps;
  steps.reserve(3 * static_cast<std::size_t>(micro_batches));
  int weights = 0;
  const auto backward = [&](int m) {
    steps.push_back({kind::backward_input, m});
    if (m >= rank) steps.push_back({kind::backward_weights, weights++});
  };
  for (int m = 0; m < ahead; ++m) steps.push_back({kind::forward, m});
  for (int m = ahead; m < micro_batches; ++m) {
    steps.push_back({kind::forward, m});
    backward(m - ahead);
  }
  for (int m = micro_batches - ahead; m < micro_batches; ++m) backward(m);
  while (weights < micro_batches) steps.push_back({kind::backward_weights, weights++});
  return steps;
}

pipeline_steps zb_v_order(int rank, int ranks, int micro_batches) {
  const int later = ranks - rank;  // ranks from this one on
  // The order is that of at least 2 * ranks - 1 micro-batches.
  const int planned = std::max(micro_batches, 2 * ranks - 1);
  v_steps v(micro_batches);
  for (int i = 0; i < 2 * later - 1; ++i) v.forward(0);
  for (int i = 0; i < rank; ++i) {
    v.forward(1);
    v.forward(0);
  }
  for (int i = 0; i < later; ++i) {
    v.forward(1);
    v.backward(1);
  }
  while (v.forwards[1] < v.forwards[0] || v.forwards[0] < planned) {
    if (v.forwards[0] < planned) v.forward(0);
    v.backward(0);
    v.forward(1);
    v.backward(1);
  }
  for (int i = 0; i < rank; ++i) {
    v.input(0);
    v.input(1);
  }
  for (int i = 0; i < later; ++i) {
    v.input(0);
    v.weights(0);
  }
  while (v.weight_parts[1] < v.inputs[1]) v.weights(1);
  while (v.weight_parts[0] < v.inputs[0]) v.weights(0);
  return std::move(v.steps);
}

}  // namespace tandem::detail
