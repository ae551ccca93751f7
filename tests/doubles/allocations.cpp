// Replaces the global operator new by one that counts.
#include "doubles/allocations.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t counted = 0;

}  // namespace

std::uint64_t tandem::test::allocations() noexcept {
  return counted;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (tandem::test::not_counted::depth() == 0) ++counted;
  const std::size_t length =
      (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* const memory = alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, length)
                                                             : std::malloc(length);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes, 1);
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

#endif
