#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>
#include <tandem/detail/board.hpp>
#include <vector>

namespace tandem::test {

/// Zeroed memory aligned to a cache line, in place of shared memory.
class board_pages {
 public:
  explicit board_pages(int ranks)
      : bytes_(board::bytes_for(ranks)), data_(new (line) std::byte[bytes_]) {
    std::memset(data_.get(), 0, bytes_);
  }
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return bytes_; }

 private:
  static constexpr std::align_val_t line{64};
  struct free_line {
    void operator()(std::byte* at) const { ::operator delete[](at, line); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte[], free_line> data_;
};

/// A rank's side, which records whose doorbell it rings.
class board_side : public board {
 public:
  board_side(const board_pages& on, int rank, int size) : board(on.data(), rank, size) {}
  bool spin_wait(waiter&) noexcept override { return false; }
  void wait(waiter&, std::chrono::steady_clock::time_point) override {}
  void cancel_wait(waiter&) noexcept override {}
  const std::shared_ptr<const error>& failed() const noexcept override { return none_; }

  void contribute(std::uint64_t call, std::uint64_t value) {
    std::byte* const at = slot_for(call);
    ASSERT_NE(at, nullptr);
    std::memcpy(at, &value, sizeof value);
    publish(call, {call * 3, static_cast<std::uint32_t>(call)}, sizeof value);
  }
  std::uint64_t value_of(int rank, std::uint64_t call) const {
    const contribution there = find(rank, call);
    std::uint64_t value = 0;
    if (there.data != nullptr) std::memcpy(&value, there.data, sizeof value);
    return value;
  }
  using board::clear_blocked;
  using board::set_blocked;
  std::vector<int> rung;
  bool has_loop = false;

 private:
  void ring_doorbell(int rank) noexcept override { rung.push_back(rank); }
  bool flushes_soon() const noexcept override { return has_loop; }

  std::shared_ptr<const error> none_;
};

}  // namespace tandem::test
