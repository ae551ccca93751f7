#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace tandem::protocol {

/// A queue of objects whose addresses are stable while they are in it. Its memory is kept for later
/// ones, so that steady traffic allocates nothing; a deque would allocate a block for every few.
template <class T>
class stable_queue {
 public:
  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  T& front() noexcept { return at(0); }
  T& operator[](std::size_t index) noexcept { return at(index); }

  /// A new object, as by its default constructor.
  T& emplace_back() {
    if (first_ + size_ == blocks_.size() * per_block) add_block();
    static_assert(std::is_nothrow_default_constructible_v<T>);
    T* const added = &at(size_);
    std::destroy_at(added);
    std::construct_at(added);
    ++size_;
    return *added;
  }
  void push_back(T value) { emplace_back() = std::move(value); }
  /// Whatever the object holds is freed when its place is used again, or with the queue.
  void pop_front() noexcept {
    --size_;
    if (++first_ < per_block) return;
    // The first block becomes the last.
    std::rotate(blocks_.begin(), blocks_.begin() + 1, blocks_.end());
    first_ = 0;
  }
  void clear() noexcept {
    while (!empty()) pop_front();
  }
  /// Takes out the first one that equals this.
  void remove(const T& which) {
    std::size_t kept = 0;
    while (kept < size_ && !(at(kept) == which)) ++kept;
    if (kept < size_) erase(kept);
  }
  /// Takes out one of them; the later ones move.
  void erase(std::size_t index) {
    if (index == 0) return pop_front();
    for (; index + 1 < size_; ++index) at(index) = std::move(at(index + 1));
    --size_;
  }
  template <class Visitor>
  void for_each(Visitor visit) {
    for (std::size_t i = 0; i < size_; ++i) visit(at(i));
  }

 private:
  static constexpr std::size_t per_block = 16;

  T& at(std::size_t index) noexcept {
    const std::size_t place = first_ + index;
    return blocks_[place / per_block][place % per_block];
  }
  void add_block() { blocks_.push_back(std::make_unique<T[]>(per_block)); }

  std::vector<std::unique_ptr<T[]>> blocks_;
  std::size_t first_ = 0;  // within the first block
  std::size_t size_ = 0;
};

}  // namespace tandem::protocol
