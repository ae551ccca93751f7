#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tandem/pipeline.hpp>
#include <vector>

namespace tandem::test {

inline constexpr pipeline_kind both_kinds[] = {pipeline_kind::gpipe, pipeline_kind::one_f_one_b};

using numbers = std::vector<std::int64_t>;

/// A stage with exact integer arithmetic: forward maps x to 3 x + stage, backward maps g to
/// 2 g + x, where x is the stashed input. The first stage generates inputs, the last gradients.
class integer_stage : public pipeline_stage {
 public:
  integer_stage(int stage, int stages, int micro_batches, std::size_t length)
      : stage_(stage),
        is_first_(stage == 0),
        is_last_(stage + 1 == stages),
        length_(length),
        stash_(static_cast<std::size_t>(micro_batches)) {}

  static numbers source(int micro_batch, std::size_t length) {
    numbers x(length);
    for (std::size_t i = 0; i < length; ++i) {
      x[i] = 1000 * micro_batch + static_cast<std::int64_t>(i);
    }
    return x;
  }

  std::size_t input_bytes() const override { return length_ * sizeof(std::int64_t); }
  std::size_t output_bytes() const override { return length_ * sizeof(std::int64_t); }

  asio::awaitable<void> forward(int micro_batch, const_view in, mutable_view out) override {
    co_await compute();
    EXPECT_EQ(in.bytes, is_first_ ? 0 : input_bytes());
    EXPECT_EQ(out.bytes, is_last_ ? 0 : output_bytes());
    numbers& x = stash_[static_cast<std::size_t>(micro_batch)];
    x = source(micro_batch, length_);
    if (!is_first_) std::memcpy(x.data(), in.data, in.bytes);
    numbers y(length_);
    for (std::size_t i = 0; i < length_; ++i) y[i] = 3 * x[i] + stage_;
    if (is_last_) {
      results.push_back(y);
    } else {
      std::memcpy(out.data, y.data(), out.bytes);
    }
    ++held;
    peak = std::max(peak, held);
    done.push_back({pipeline_step::forward, micro_batch});
  }

  asio::awaitable<void> backward(int micro_batch, const_view grad_out,
                                 mutable_view grad_in) override {
    co_await compute();
    EXPECT_EQ(grad_out.bytes, is_last_ ? 0 : output_bytes());
    EXPECT_EQ(grad_in.bytes, is_first_ ? 0 : input_bytes());
    const numbers& x = stash_[static_cast<std::size_t>(micro_batch)];
    numbers g(length_, 1);
    if (!is_last_) std::memcpy(g.data(), grad_out.data, grad_out.bytes);
    for (std::size_t i = 0; i < length_; ++i) g[i] = 2 * g[i] + x[i];
    if (is_first_) {
      results.push_back(g);
    } else {
      std::memcpy(grad_in.data, g.data(), grad_in.bytes);
    }
    --held;
    done.push_back({pipeline_step::backward, micro_batch});
  }

  std::vector<numbers> results;  ///< last stage: forward, first stage: backward
  pipeline_schedule done;
  int held = 0;
  int peak = 0;

 protected:
  virtual asio::awaitable<void> compute() { co_return; }

 private:
  int stage_;
  bool is_first_, is_last_;
  std::size_t length_;
  std::vector<numbers> stash_;
};

using stage_list = std::vector<std::unique_ptr<integer_stage>>;

inline stage_list make_stages(int stages, int micro_batches, std::size_t length) {
  stage_list all;
  for (int s = 0; s < stages; ++s) {
    all.push_back(std::make_unique<integer_stage>(s, stages, micro_batches, length));
  }
  return all;
}

}  // namespace tandem::test
