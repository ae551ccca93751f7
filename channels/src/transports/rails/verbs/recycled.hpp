#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace tandem::verbs {

/// Freed blocks of memory of one size, for later objects of one type.
class recycled_blocks {
 public:
  recycled_blocks() = default;
  ~recycled_blocks() {
    for (void* const each : kept_) ::operator delete(each);
  }
  recycled_blocks(const recycled_blocks&) = delete;
  recycled_blocks& operator=(const recycled_blocks&) = delete;

  void* take(std::size_t bytes) {
    if (kept_.empty()) {
      kept_.reserve(++made_);  // room for every block, so that `give_back` cannot fail
      return ::operator new(bytes);
    }
    void* const taken = kept_.back();
    kept_.pop_back();
    return taken;
  }
  void give_back(void* used) noexcept { kept_.push_back(used); }

 private:
  std::vector<void*> kept_;
  std::size_t made_ = 0;
};

/// For std::allocate_shared of objects of one type. One thread at a time.
template <class T>
struct recycling_allocator {
  using value_type = T;

  explicit recycling_allocator(std::shared_ptr<recycled_blocks> from) noexcept
      : blocks(std::move(from)) {}
  template <class Other>
  recycling_allocator(const recycling_allocator<Other>& other) noexcept : blocks(other.blocks) {}

  T* allocate(std::size_t /*one*/) { return static_cast<T*>(blocks->take(sizeof(T))); }
  void deallocate(T* used, std::size_t /*one*/) noexcept { blocks->give_back(used); }
  template <class Other>
  bool operator==(const recycling_allocator<Other>& other) const noexcept {
    return blocks == other.blocks;
  }

  std::shared_ptr<recycled_blocks> blocks;
};

}  // namespace tandem::verbs
