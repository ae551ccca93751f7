#pragma once

#include <atomic>
#include <cstdint>

#include "c/device_job.hpp"

namespace tandem::test {

/// Device memory that is filled and read in the order of the rank's stream.
class filled_bytes {
 public:
  filled_bytes(device_rank& of, std::size_t bytes)
      : of_(of), host_(*of.gpu, bytes), memory_(bytes, of.kind, of.device) {}
  ~filled_bytes() { of_.gpu->finish(of_.stream.get()); }
  filled_bytes(const filled_bytes&) = delete;
  filled_bytes& operator=(const filled_bytes&) = delete;

  void fill(int with) {
    of_.gpu->fill(memory_.data(), static_cast<std::uint8_t>(with), memory_.size(),
                  of_.stream.get());
  }
  tandem_buffer part(std::size_t bytes) const {
    return {memory_.data(), bytes, static_cast<std::int32_t>(of_.kind), of_.device};
  }
  tandem_buffer buffer() const { return part(memory_.size()); }
  /// The value of all of the first bytes, or -1.
  int value(std::size_t bytes) {
    of_.gpu->copy(host_.data(), memory_.data(), memory_.size(), of_.stream.get());
    of_.gpu->finish(of_.stream.get());
    const auto first = static_cast<int>(host_.data()[0]);
    for (std::size_t i = 0; i < bytes; ++i) {
      if (static_cast<int>(host_.data()[i]) != first) return -1;
    }
    return first;
  }
  int value() { return value(memory_.size()); }

 private:
  device_rank& of_;
  pinned_buffer host_;
  tandem::buffer memory_;
};

/// A stream that stands still until it is released.
class standing_stream {
 public:
  explicit standing_stream(accelerator& of) : of_(of), word_(of, sizeof(std::uint32_t)), own_(of) {
    hold(own_.get());
  }
  ~standing_stream() {
    release();
    of_.finish(own_.get());
  }
  standing_stream(const standing_stream&) = delete;
  standing_stream& operator=(const standing_stream&) = delete;

  /// Another stream, too, which has to be finished before this object ends.
  void hold(accelerator::stream which) {
    of_.await_value(which, of_.device_pointer(word_.data()), 1);
  }
  accelerator::stream get() const noexcept { return own_.get(); }
  void release() noexcept {
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(word_.data())).store(1);
  }

 private:
  accelerator& of_;
  pinned_buffer word_;
  device_stream own_;
};

}  // namespace tandem::test
