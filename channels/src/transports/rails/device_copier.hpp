#pragma once

#include <cstddef>
#include <tandem/accelerator.hpp>
#include <tandem/memory.hpp>
#include <vector>

namespace tandem::rails {

/// Copies views in device memory to host memory and back, for lanes whose NIC cannot access them
/// any more. Blocks while a copy engine moves the bytes, about as long as a CPU copy of the same
/// size; the lane itself is slower than that.
/// @par Errors thrown: `device_failed`.
class device_copier {
 public:
  void fetch(const const_view& from, std::byte* to);
  void store(const std::byte* from, const mutable_view& to);

 private:
  struct engine {
    explicit engine(accelerator& of);
    accelerator& on;
    device_stream stream;
    pinned_buffer bounce;
  };
  engine& of(const const_view& view);

  std::vector<engine> engines_;
};

}  // namespace tandem::rails
