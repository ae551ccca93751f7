#pragma once

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <tandem/pipeline.hpp>

#include "doubles/cuda/double.hpp"

namespace tandem::bench {

using clock_type = std::chrono::steady_clock;

inline double ms_since(clock_type::time_point begin) {
  return std::chrono::duration<double, std::milli>(clock_type::now() - begin).count();
}

/// Durations of a stage's computations; a backward takes both parts.
struct stage_times {
  std::chrono::nanoseconds forward, backward_input, backward_weights;
};

/// A stage of a pipeline of two ranks whose computations are timers: they take no core. Its
/// messages are in the memory of a simulated device. It writes and checks a word of each page of
/// them within the time of the computation, or in a round that checks everything, all words.
class timed_stage final : public pipeline_stage {
 public:
  timed_stage(int rank, std::size_t bytes, stage_times times, test::cuda_double& gpus,
              asio::any_io_executor executor)
      : rank_(rank), bytes_(bytes), times_(times), gpus_(gpus), timer_(std::move(executor)) {}

  /// The data of a round differ from those of all others.
  void begin_round(bool checks_all) {
    ++round_;
    stride_ = checks_all ? 1 : page_words;
  }
  std::uint64_t wrong_bytes() const { return wrong_bytes_; }

  std::size_t input_bytes(int) const override { return bytes_; }
  std::size_t output_bytes(int) const override { return bytes_; }
  const_view memory() const override { return {nullptr, 0, memory_kind::cuda, 0}; }

  asio::awaitable<void> forward(pipeline_step at, const_view in, mutable_view out) override {
    return compute(at, in, out, times_.forward);
  }
  asio::awaitable<void> backward(pipeline_step at, const_view in, mutable_view out) override {
    return compute(at, in, out, times_.backward_input + times_.backward_weights);
  }
  asio::awaitable<void> backward_input(pipeline_step at, const_view in, mutable_view out) override {
    return compute(at, in, out, times_.backward_input);
  }
  asio::awaitable<void> backward_weights(pipeline_step at) override {
    return compute(at, {}, {}, times_.backward_weights);
  }

 private:
  static constexpr std::size_t page_words = 512;

  asio::awaitable<void> compute(pipeline_step at, const_view in, mutable_view out,
                                std::chrono::nanoseconds duration) {
    timer_.expires_after(duration);
    const bool is_forward = at.what == pipeline_step::forward;
    if (in.bytes > 0) check(in, word_of(is_forward, 1 - rank_, at.micro_batch));
    if (out.bytes > 0) fill(out, word_of(is_forward, rank_, at.micro_batch));
    co_await timer_.async_wait(asio::use_awaitable);
  }
  std::uint64_t word_of(bool is_forward, int from, int micro_batch) const {
    const std::uint64_t flow = (is_forward ? 2u : 0u) + static_cast<std::uint64_t>(from);
    return (round_ << 32 | flow << 24 | static_cast<std::uint64_t>(micro_batch)) *
           0x9e3779b97f4a7c15u;
  }
  std::byte* host(const void* at, std::size_t bytes) {
    return gpus_.host(static_cast<std::byte*>(const_cast<void*>(at)), bytes);
  }
  void fill(mutable_view out, std::uint64_t first) {
    std::byte* const at = host(out.data, out.bytes);
    for (std::size_t i = 0; i < out.bytes / sizeof(first); i += stride_) {
      const std::uint64_t word = first + i;
      std::memcpy(at + i * sizeof(word), &word, sizeof(word));
    }
  }
  void check(const_view in, std::uint64_t first) {
    const std::byte* const at = host(in.data, in.bytes);
    for (std::size_t i = 0; i < in.bytes / sizeof(first); i += stride_) {
      const std::uint64_t word = first + i;
      if (std::memcmp(at + i * sizeof(word), &word, sizeof(word)) != 0)
        wrong_bytes_ += sizeof(word);
    }
  }

  const int rank_;
  const std::size_t bytes_;
  const stage_times times_;
  test::cuda_double& gpus_;
  asio::steady_timer timer_;
  std::uint64_t round_ = 0;
  std::size_t stride_ = 1;
  std::uint64_t wrong_bytes_ = 0;
};

/// Time that a rank has waited for messages: inputs and buffers.
class wait_observer final : public pipeline_observer {
 public:
  void record(const entry& done) override {
    if (done.what == pipeline_activity::recv || done.what == pipeline_activity::send)
      waited_ += done.end - done.begin;
  }
  double take_ms() {
    const auto all = std::exchange(waited_, {});
    return std::chrono::duration<double, std::milli>(all).count();
  }

 private:
  clock_type::duration waited_{};
};

}  // namespace tandem::bench
