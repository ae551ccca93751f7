#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "doubles/cuda/double.hpp"

namespace tandem::test {

inline const detail::cuda& driver() {
  std::string why;
  return *detail::find_cuda(why);
}

inline cu::address address_of(const void* at) {
  return reinterpret_cast<cu::address>(at);
}

/// Owns driver objects; an object that was moved from or released explicitly is null.
struct cuda_rig {
  explicit cuda_rig(cuda_double::options as = {}) : gpus(as) {
    for (int i = 0; i < as.devices; ++i) {
      EXPECT_EQ(driver().retain_primary(&contexts.emplace_back(), i), cu::success);
    }
    use(0);
  }
  ~cuda_rig() {
    for (cu::module each : modules) EXPECT_EQ(driver().unload_module(each), after);
    for (cu::event each : events) EXPECT_EQ(driver().destroy_event(each), after);
    for (cu::stream each : streams) EXPECT_EQ(driver().destroy_stream(each), after);
    for (cu::address each : memory) EXPECT_EQ(driver().free(each), after);
    for (void* each : pinned) EXPECT_EQ(driver().free_host(each), after);
    EXPECT_EQ(driver().pop_context(nullptr), cu::success);
  }
  cuda_rig(const cuda_rig&) = delete;
  cuda_rig& operator=(const cuda_rig&) = delete;

  /// Makes this the thread's current device.
  void use(int device) {
    if (is_current) {
      EXPECT_EQ(driver().pop_context(nullptr), cu::success);
    }
    is_current = true;
    EXPECT_EQ(driver().push_context(contexts.at(static_cast<std::size_t>(device))), cu::success);
  }
  cu::address allocate(std::size_t bytes) {
    cu::address made = 0;
    EXPECT_EQ(driver().allocate(&made, bytes), cu::success);
    return memory.emplace_back(made);
  }
  void free(cu::address which) {
    std::erase(memory, which);
    EXPECT_EQ(driver().free(which), cu::success);
  }
  char* pin(const std::string& text) {
    void* made = nullptr;
    EXPECT_EQ(driver().allocate_host(&made, text.size(), cu::host_portable), cu::success);
    pinned.push_back(made);
    std::memcpy(made, text.data(), text.size());
    return static_cast<char*>(made);
  }
  cu::stream stream(unsigned flags = cu::stream_non_blocking) {
    cu::stream made = nullptr;
    EXPECT_EQ(driver().create_stream(&made, flags, 0), cu::success);
    return streams.emplace_back(made);
  }
  cu::event event(unsigned flags = cu::event_disable_timing) {
    cu::event made = nullptr;
    EXPECT_EQ(driver().create_event(&made, flags), cu::success);
    return events.emplace_back(made);
  }
  /// Device memory with this content.
  cu::address filled(const std::string& text) {
    const cu::address made = allocate(text.size());
    std::memcpy(gpus.host(made, text.size()), text.data(), text.size());
    return made;
  }
  std::string text(cu::address at, std::size_t bytes) {
    return {reinterpret_cast<const char*>(gpus.host(at, bytes)), bytes};
  }

  cuda_double gpus;
  std::vector<cu::context> contexts;
  std::vector<cu::module> modules;
  std::vector<cu::event> events;
  std::vector<cu::stream> streams;
  std::vector<cu::address> memory;
  std::vector<void*> pinned;
  bool is_current = false;
  cu::result after = cu::success;  ///< result of the release on a broken device
};

inline cuda_double::options by_hand() {
  cuda_double::options as;
  as.manual = true;
  return as;
}

}  // namespace tandem::test
