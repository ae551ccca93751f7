#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tandem::rails {

/// A queue of objects whose addresses are stable while they are in it. Its memory is kept for later
/// ones, so that steady traffic allocates nothing; a deque would allocate a block for every few.
template <class T>
class stable_queue {
 public:
  bool empty() const noexcept { return size_ == 0; }
  T& front() noexcept { return at(0); }
  T& operator[](std::size_t index) noexcept { return at(index); }

  /// A new object, as by its default constructor.
  T& emplace_back() {
    if (first_ + size_ == blocks_.size() * per_block) add_block();
    T& added = at(size_);
    added = T{};
    ++size_;
    return added;
  }
  /// Whatever the object holds is freed when its place is used again, or with the queue.
  void pop_front() noexcept {
    --size_;
    if (++first_ < per_block) return;
    // The first block becomes the last.
    std::rotate(blocks_.begin(), blocks_.begin() + 1, blocks_.end());
    first_ = 0;
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

/// Memory for copies of payloads, in two sizes: freed copies are kept for later ones.
class copy_pool {
 public:
  using memory = std::unique_ptr<std::byte[]>;
  static constexpr std::size_t short_bytes = 256;

  /// @param long_bytes  the longest copy whose memory is kept
  explicit copy_pool(std::size_t long_bytes)
      : long_bytes_(std::max(long_bytes, short_bytes)), max_long_(max_kept_bytes / long_bytes_) {}

  memory take(std::size_t bytes) {
    if (bytes > long_bytes_) return std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::vector<memory>& kept = bytes <= short_bytes ? short_ : long_;
    if (kept.empty()) {
      const std::size_t length = bytes <= short_bytes ? short_bytes : long_bytes_;
      return std::make_unique_for_overwrite<std::byte[]>(length);
    }
    memory taken = std::move(kept.back());
    kept.pop_back();
    return taken;
  }
  /// @param bytes  as it was taken for
  void give_back(memory used, std::size_t bytes) {
    if (!used || bytes > long_bytes_) return;
    std::vector<memory>& kept = bytes <= short_bytes ? short_ : long_;
    if (kept.size() < (bytes <= short_bytes ? max_short : max_long_)) {
      kept.push_back(std::move(used));
    }
  }

 private:
  static constexpr std::size_t max_kept_bytes = std::size_t{4} << 20;
  static constexpr std::size_t max_short = 1024;

  std::size_t long_bytes_;
  std::size_t max_long_;
  std::vector<memory> short_, long_;
};

}  // namespace tandem::rails
