#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <tandem/accelerator.hpp>

#include "collectives/integer_stage.hpp"

namespace tandem::test {

/// Its buffers are in the memory of a GPU, from and to which streams copy; it computes on the host.
class gpu_stage final : public integer_stage {
 public:
  static constexpr std::size_t length = 100'003;

  gpu_stage(int rank, const pipeline_schedule& all, accelerator& gpu, device_watch& watch)
      : integer_stage(rank, all, length),
        gpu_(gpu),
        watch_(watch),
        stream_(gpu),
        in_(gpu, length * sizeof(std::int64_t)),
        out_(gpu, length * sizeof(std::int64_t)) {}

  const_view memory() const override { return {nullptr, 0, gpu_.kind(), gpu_.device()}; }
  asio::awaitable<void> forward(pipeline_step at, const_view in, mutable_view out) override {
    co_await load(in);
    co_await integer_stage::forward(at, on_host(in_, in), on_host(out_, out));
    co_await store(out);
  }
  asio::awaitable<void> backward(pipeline_step at, const_view grad_out,
                                 mutable_view grad_in) override {
    co_await load(grad_out);
    co_await integer_stage::backward(at, on_host(in_, grad_out), on_host(out_, grad_in));
    co_await store(grad_in);
  }
  asio::awaitable<void> backward_input(pipeline_step at, const_view grad_out,
                                       mutable_view grad_in) override {
    co_await load(grad_out);
    co_await integer_stage::backward_input(at, on_host(in_, grad_out), on_host(out_, grad_in));
    co_await store(grad_in);
  }

 private:
  template <class View>
  View on_host(const pinned_buffer& of, View given) const {
    if (given.bytes > 0 && (given.kind != gpu_.kind() || given.device != gpu_.device())) {
      throw std::runtime_error("a buffer in other memory");
    }
    return View(of.data(), given.bytes);
  }
  asio::awaitable<void> load(const_view from) {
    if (from.bytes == 0) co_return;
    gpu_.copy(in_.data(), from.data, from.bytes, stream_.get());
    co_await watch_.reached(stream_.get());
  }
  asio::awaitable<void> store(mutable_view to) {
    if (to.bytes == 0) co_return;
    gpu_.copy(to.data, out_.data(), to.bytes, stream_.get());
    co_await watch_.reached(stream_.get());
  }

  accelerator& gpu_;
  device_watch& watch_;
  device_stream stream_;
  pinned_buffer in_, out_;
};

}  // namespace tandem::test
