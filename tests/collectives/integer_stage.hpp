#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tandem/pipeline.hpp>
#include <vector>

namespace tandem::test {

using numbers = std::vector<std::int64_t>;

/// The stages of one rank with exact integer arithmetic: forward maps x to 3 x + stage, the input
/// part of backward maps g to 2 g + x, where x is the stashed input, and the weight part adds the
/// input part's result to a sum that depends on the order. The first stage generates inputs, the
/// last gradients.
class integer_stage : public pipeline_stage {
 public:
  /// @param splits  whether it has a weight part of its own; else the defaults serve
  integer_stage(int rank, const pipeline_schedule& all, std::size_t length, bool splits = true)
      : splits_(splits), length_(length) {
    for (int chunk = 0; chunk < all.chunks; ++chunk) {
      const int stage = stage_of(all.placement, {rank, chunk}, all.size());
      chunks_.push_back({stage, stage == 0, stage + 1 == all.stages(),
                         std::vector<numbers>(static_cast<std::size_t>(all.micro_batches)),
                         std::vector<numbers>(static_cast<std::size_t>(all.micro_batches)),
                         numbers(length)});
    }
  }

  static numbers source(int micro_batch, std::size_t length) {
    numbers x(length);
    for (std::size_t i = 0; i < length; ++i) {
      x[i] = 1000 * micro_batch + static_cast<std::int64_t>(i);
    }
    return x;
  }
  /// Adds a gradient to a sum of weights; not commutative.
  static void add(numbers& sum, const numbers& gradient) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum[i]) * 31 +
                                         static_cast<std::uint64_t>(gradient[i]));
    }
  }

  std::size_t input_bytes(int) const override { return length_ * sizeof(std::int64_t); }
  std::size_t output_bytes(int) const override { return length_ * sizeof(std::int64_t); }

  asio::awaitable<void> forward(pipeline_step at, const_view in, mutable_view out) override {
    co_await compute();
    chunk& of = at_chunk(at);
    EXPECT_EQ(in.bytes, of.is_first ? 0 : input_bytes(at.chunk));
    EXPECT_EQ(out.bytes, of.is_last ? 0 : output_bytes(at.chunk));
    numbers& x = of.stash[index(at.micro_batch)];
    x = source(at.micro_batch, length_);
    if (!of.is_first) std::memcpy(x.data(), in.data, in.bytes);
    numbers y(length_);
    for (std::size_t i = 0; i < length_; ++i) y[i] = 3 * x[i] + of.stage;
    if (of.is_last) {
      outcomes.push_back(y);
    } else {
      std::memcpy(out.data, y.data(), out.bytes);
    }
    ++held;
    peak = std::max(peak, held);
    done.push_back(at);
  }

  asio::awaitable<void> backward(pipeline_step at, const_view grad_out,
                                 mutable_view grad_in) override {
    co_await compute();
    differentiate(at, grad_out, grad_in);
    finish_weights(at);
    done.push_back(at);
  }

  asio::awaitable<void> backward_input(pipeline_step step, const_view grad_out,
                                       mutable_view grad_in) override {
    if (!splits_) return pipeline_stage::backward_input(step, grad_out, grad_in);
    return input_part(step, grad_out, grad_in);
  }

  asio::awaitable<void> backward_weights(pipeline_step step) override {
    if (!splits_) return pipeline_stage::backward_weights(step);
    return weight_part(step);
  }

  const numbers& weights(int chunk) const { return chunks_[index(chunk)].weights; }
  int stage(int chunk) const { return chunks_[index(chunk)].stage; }

  std::vector<numbers> outcomes;   ///< of the last stage, by micro-batch
  std::vector<numbers> gradients;  ///< of the first stage, by micro-batch
  pipeline_steps done;
  int held = 0;
  int peak = 0;

 protected:
  virtual asio::awaitable<void> compute() { co_return; }

 private:
  struct chunk {
    int stage;
    bool is_first, is_last;
    std::vector<numbers> stash, input_gradients;
    numbers weights;
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  chunk& at_chunk(const pipeline_step& step) { return chunks_[index(step.chunk)]; }

  asio::awaitable<void> input_part(pipeline_step at, const_view grad_out, mutable_view grad_in) {
    co_await compute();
    differentiate(at, grad_out, grad_in);
    done.push_back(at);
  }
  asio::awaitable<void> weight_part(pipeline_step at) {
    co_await compute();
    finish_weights(at);
    done.push_back(at);
  }

  void differentiate(const pipeline_step& at, const_view grad_out, mutable_view grad_in) {
    chunk& of = at_chunk(at);
    EXPECT_EQ(grad_out.bytes, of.is_last ? 0 : output_bytes(at.chunk));
    EXPECT_EQ(grad_in.bytes, of.is_first ? 0 : input_bytes(at.chunk));
    const numbers& x = of.stash[index(at.micro_batch)];
    numbers g(length_, 1);
    if (!of.is_last) std::memcpy(g.data(), grad_out.data, grad_out.bytes);
    for (std::size_t i = 0; i < length_; ++i) g[i] = 2 * g[i] + x[i];
    if (of.is_first) {
      gradients.push_back(g);
    } else {
      std::memcpy(grad_in.data, g.data(), grad_in.bytes);
    }
    of.input_gradients[index(at.micro_batch)] = std::move(g);
  }
  void finish_weights(const pipeline_step& at) {
    chunk& of = at_chunk(at);
    add(of.weights, of.input_gradients[index(at.micro_batch)]);
    --held;
  }

  bool splits_;
  std::size_t length_;
  std::vector<chunk> chunks_;
};

using stage_list = std::vector<std::unique_ptr<integer_stage>>;

/// The stages of all ranks, by rank.
inline stage_list make_stages(const pipeline_schedule& all, std::size_t length,
                              bool splits = true) {
  stage_list made;
  for (int rank = 0; rank < all.size(); ++rank) {
    made.push_back(std::make_unique<integer_stage>(rank, all, length, splits));
  }
  return made;
}

/// Every kind for that many ranks and micro-batches, with several numbers of chunks where it takes
/// them.
inline std::vector<pipeline_shape> shapes_of(int ranks, int micro_batches, int max_chunks = 3) {
  std::vector<pipeline_shape> all;
  for (const pipeline_kind kind : pipeline_kinds()) {
    const bool any_chunks = kind == pipeline_kind::interleaved;
    for (int chunks = any_chunks ? 1 : 0; chunks <= (any_chunks ? max_chunks : 0); ++chunks) {
      all.push_back(
          {.kind = kind, .ranks = ranks, .micro_batches = micro_batches, .chunks = chunks});
    }
  }
  return all;
}

inline std::string text_of(const pipeline_shape& shape) {
  return std::string(name(shape.kind)) + ", " + std::to_string(shape.ranks) + " ranks, " +
         std::to_string(shape.micro_batches) + " micro-batches, " + std::to_string(shape.chunks) +
         " chunks";
}

}  // namespace tandem::test
