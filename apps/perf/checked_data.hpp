#pragma once

#include <memory>
#include <utility>

#include "perf/collective_data.hpp"
#include "perf/device_mirror.hpp"

namespace tandem::perf {

/// The data of a collective, in host or device memory. Device memory is updated only when the data
/// of a call differ from those of the previous one, and read back only for the full check.
class checked_data {
 public:
  checked_data(std::unique_ptr<collective_data> data, memory_location at)
      : data_(std::move(data)), mirror_(at) {}

  void prepare(std::uint64_t epoch) {
    data_->prepare(epoch);
    data_->before(epoch, 0, false);
    mirror_.upload();
  }
  void before(std::uint64_t epoch, std::uint64_t iteration, bool last) {
    data_->before(epoch, mirror_.on_host() ? iteration : 0, last);
    if (!mirror_.on_host()) {
      mirror_.of(data_->input());
      mirror_.of(data_->output());
    }
  }
  std::uint64_t after(std::uint64_t epoch, std::uint64_t iteration) {
    return mirror_.on_host() ? data_->after(epoch, iteration) : 0;
  }
  std::uint64_t wrong_bytes(std::uint64_t epoch, std::uint64_t iteration) {
    mirror_.download();
    return data_->wrong_bytes(epoch, mirror_.on_host() ? iteration : 0);
  }
  mutable_view input() { return mirror_.of(data_->input()); }
  mutable_view output() { return mirror_.of(data_->output()); }

 private:
  std::unique_ptr<collective_data> data_;
  device_mirror mirror_;
};

}  // namespace tandem::perf
