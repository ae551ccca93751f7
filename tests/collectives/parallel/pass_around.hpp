#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <tandem/accelerator.hpp>
#include <tandem/parallel.hpp>
#include <vector>

namespace tandem::test {

/// Copies between host memory and a rank's memory. @param device  null for host memory
inline void copy(accelerator* device, void* to, const void* from, std::size_t bytes) {
  if (!device) {
    std::memcpy(to, from, bytes);
    return;
  }
  pinned_buffer between(*device, bytes);
  const device_stream stream(*device);
  device->copy(between.data(), from, bytes, stream.get());
  device->copy(to, between.data(), bytes, stream.get());
  device->finish(stream.get());
}

inline buffer memory_of(accelerator* device, std::size_t bytes) {
  return device ? buffer(bytes, device->kind(), device->device()) : buffer(bytes);
}

/// Passes a block that is unique to each rank once around the ring of the group; throws if a block
/// is wrong.
inline asio::awaitable<void> pass_around(communicator& along, accelerator* device) {
  constexpr std::size_t bytes = 40'000;
  const buffer mine = memory_of(device, bytes), got = memory_of(device, bytes);
  std::vector<std::byte> here(bytes, static_cast<std::byte>(along.rank() + 1));
  copy(device, mine.data(), here.data(), bytes);
  const int n = along.size(), next = (along.rank() + 1) % n, before = (along.rank() + n - 1) % n;
  const mutable_view into = got.view();
  const const_view from = mine.view();
  const std::size_t received = co_await along.sendrecv(next, from, before, into, 3);
  if (received != bytes) throw std::runtime_error("a message of another length");
  copy(device, here.data(), got.data(), bytes);
  const auto is_right = [before](std::byte each) {
    return each == static_cast<std::byte>(before + 1);
  };
  if (!std::ranges::all_of(here, is_right)) throw std::runtime_error("another message");
}

}  // namespace tandem::test
