#include "support/stream_kernels_on_host.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "streams/slot_words.hpp"
#include "streams/stream_kernels.hpp"

// What slot_device.hpp and the device's compiler provide.
namespace {
struct in_one_dimension {
  unsigned x;
};
thread_local in_one_dimension blockIdx, blockDim, threadIdx;  // NOLINT: the vendor's names
}  // namespace
#define TANDEM_SLOT_ENTRY static
#define TANDEM_SLOT_ARGUMENT const
#define TANDEM_SLOT_SHARED

namespace tandem::detail {
namespace {

inline std::uint32_t load_word(const std::uint32_t* at) {
  return std::atomic_ref(*const_cast<std::uint32_t*>(at)).load(std::memory_order_acquire);
}
inline void store_word(std::uint32_t* at, std::uint32_t value) {
  std::atomic_ref(*at).store(value, std::memory_order_release);
}
inline void meet() {}  // a block has one thread
inline void rest() {
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}
template <class Unit>
inline Unit load_unit(const Unit* at) {
  return *at;
}
struct alignas(16) copy_unit {
  std::uint64_t halves[2];
};

}  // namespace
}  // namespace tandem::detail

#include "streams/piece_copies.hpp"
#include "streams/slot_kernel.hpp"
#include "streams/staged_kernel.hpp"

namespace tandem::test {
namespace {

using detail::slot_work, detail::staged_copy;

template <class T>
void translate(cuda_double& gpus, T*& at, std::size_t bytes) {
  at = reinterpret_cast<T*>(gpus.host(reinterpret_cast<cu::address>(at), bytes));
}

/// With addresses that the processor can access.
void translate(cuda_double& gpus, slot_work& work) {
  for (unsigned i = 0; i < work.directions; ++i) {
    detail::slot_direction& each = work.direction[i];
    translate(gpus, each.own, sizeof *each.own);
    try {
      translate(gpus, each.other, sizeof *each.other);
    } catch (const std::out_of_range&) {
      each.other = nullptr;  // the peer has ended: an aborted kernel does not need it
    }
    translate(gpus, each.progress, sizeof *each.progress);
    translate(gpus, each.report, sizeof *each.report);
    for (unsigned k = 0; k < each.messages; ++k) {
      detail::slot_message& message = work.message[each.first_message + k];
      translate(gpus, message.data, message.head.bytes);
    }
  }
}

void translate(cuda_double& gpus, staged_copy& what) {
  const unsigned words = std::max(detail::blocks_for(what.bytes), 1U);
  if (what.bytes > 0) translate(gpus, what.to, what.bytes);
  if (what.bytes > 0) translate(gpus, what.from, what.bytes);
  if (what.awaited != nullptr) translate(gpus, what.awaited, sizeof *what.awaited);
  translate(gpus, what.copied, words * sizeof *what.copied);
}

/// Of one thread.
void run_kernel(const slot_work& work) {
  tandem_carry_messages(work);
}
void run_kernel(const staged_copy& work) {
  tandem_copy_staged(work);
}

template <class Work>
void run_block(cuda_double& gpus, Work work, unsigned block) {
  try {
    translate(gpus, work);
  } catch (const std::exception& e) {
    ADD_FAILURE() << "a kernel that waits: " << e.what();
    return;
  }
  blockDim.x = 1;
  threadIdx.x = 0;
  blockIdx.x = block;
  run_kernel(work);
}

template <class Work>
Work work_in(const std::vector<std::vector<std::byte>>& arguments) {
  Work work;
  std::memcpy(&work, arguments.front().data(), sizeof work);
  return work;
}

}  // namespace

stream_kernels_on_host::stream_kernels_on_host(cuda_double& gpus) {
  using all_arguments = std::vector<std::vector<std::byte>>;
  const auto& names = detail::stream_kernels::names;
  gpus.add_waiting_kernel(
      names[0], {sizeof(slot_work)},
      [this](unsigned blocks, unsigned threads, const all_arguments& arguments, cuda_double& on) {
        EXPECT_EQ(threads, detail::slot_threads);
        const auto work = work_in<slot_work>(arguments);
        EXPECT_EQ(blocks, work.blocks * work.directions);
        return start(blocks, [&on, work](unsigned block) { run_block(on, work, block); });
      });
  gpus.add_waiting_kernel(
      names[1], {sizeof(staged_copy)},
      [this](unsigned blocks, unsigned threads, const all_arguments& arguments, cuda_double& on) {
        EXPECT_EQ(threads, detail::slot_threads);
        ++staged_copies_;
        return start(blocks, [&on, work = work_in<staged_copy>(arguments)](unsigned block) {
          run_block(on, work, block);
        });
      });
}

std::function<bool()> stream_kernels_on_host::start(
    unsigned blocks, const std::function<void(unsigned block)>& run) {
  const auto left = std::make_shared<std::atomic<unsigned>>(blocks);
  {
    const std::lock_guard lock(mutex_);
    running_ += static_cast<int>(blocks);
  }
  for (unsigned block = 0; block < blocks; ++block) {
    std::thread([this, run, block, left] {
      run(block);
      --*left;
      const std::lock_guard lock(mutex_);
      if (--running_ == 0) ended_.notify_all();
    }).detach();
  }
  return [left] { return *left == 0; };
}

stream_kernels_on_host::~stream_kernels_on_host() {
  std::unique_lock lock(mutex_);
  const bool are_over =
      ended_.wait_for(lock, std::chrono::seconds(20), [this] { return running_ == 0; });
  EXPECT_TRUE(are_over) << "kernels that wait have not ended";
  if (!are_over) std::abort();  // they use what is freed now
}

void copy_piece_on_host(char* to, const char* from, std::size_t bytes, unsigned threads) {
  blockDim.x = threads;
  for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {
    detail::copy_piece(to, from, bytes);
  }
}

}  // namespace tandem::test
