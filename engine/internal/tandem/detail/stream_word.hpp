// Private: shared by the engine and the modules built on it, not part of the public interface.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <tandem/detail/fence.hpp>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::detail {

/// Whether a word that streams write has reached a value, compared as a counter that wraps.
inline bool has_reached(std::uint32_t& word, std::uint32_t value) noexcept {
  return static_cast<std::int32_t>(load(word) - value) >= 0;
}

/// At the end of memory that streams and kernels use: whether they pass it within a second.
template <class Function>
bool passes_soon(Function has_passed) {
  constexpr std::chrono::microseconds interval{50};
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (!has_passed()) {
    if (std::chrono::steady_clock::now() >= limit) return false;
    std::this_thread::sleep_for(interval);
  }
  return true;
}

/// Memory that streams may still use when its owner has ended: never freed.
inline void keep_for_ever(std::shared_ptr<const void> what) {
  static std::mutex mutex;
  static auto& all = *new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(mutex);
  all.push_back(std::move(what));
}

}  // namespace tandem::detail
