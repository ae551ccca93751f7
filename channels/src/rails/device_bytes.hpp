#pragma once

#include <cstddef>
#include <tandem/accelerator.hpp>
#include <tandem/memory.hpp>
#include <vector>

namespace tandem::rails {

/// Bytes of views in the memory of devices, to host memory and back, for lanes whose NIC does not
/// reach them any more. Blocks while a copy engine moves them, about as long as a processor copies
/// as much: a lane that has come to this is slower than that.
/// @par Errors thrown: `device_failed`.
class device_bytes {
 public:
  void fetch(const const_view& from, std::byte* to);
  void store(const std::byte* from, const mutable_view& to);

 private:
  struct engine {
    explicit engine(accelerator& of);
    accelerator& on;
    device_stream stream;
    pinned_buffer between;
  };
  engine& of(const const_view& view);

  std::vector<engine> engines_;
};

}  // namespace tandem::rails
