#include "support/stream_kernels_on_host.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "reduce/device_source.hpp"
#include "reduce/loops.hpp"
#include "streams/slot_words.hpp"
#include "streams/stream_kernels.hpp"

// What slot_device.hpp, device_words.hpp and the device's compiler provide.
namespace {
struct in_one_dimension {
  unsigned x;
};
thread_local in_one_dimension blockIdx, blockDim, gridDim, threadIdx;  // NOLINT: the vendor's names
}  // namespace
#define TANDEM_ENTRY [[maybe_unused]] static
#define TANDEM_SLOT_ENTRY static
#define TANDEM_EXCHANGE_ENTRY static
#define TANDEM_SLOT_ARGUMENT const
#define TANDEM_SLOT_SHARED

namespace tandem::detail {
namespace {

inline std::uint32_t load_word(const std::uint32_t* at) {
  return std::atomic_ref(*const_cast<std::uint32_t*>(at)).load(std::memory_order_acquire);
}
inline void publish() {}  // as each word does
inline void put_word(std::uint32_t* at, std::uint32_t value) {
  std::atomic_ref(*at).store(value, std::memory_order_release);
}
inline void store_word(std::uint32_t* at, std::uint32_t value) {
  put_word(at, value);
}
inline void meet(unsigned, unsigned) {}  // a block has one thread
inline void rest() {
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}
template <class Unit>
inline Unit load_unit(const Unit* at) {
  return *at;
}
template <class Unit>
inline Unit load_once(const Unit* at) {
  return *at;
}
template <class Unit>
inline void store_once(Unit* at, const Unit& value) {
  *at = value;
}
struct alignas(16) copy_unit {
  std::uint64_t halves[2];
};

}  // namespace
}  // namespace tandem::detail

#include "streams/piece_copies.hpp"
#include "streams/slot_copier.hpp"
#include "streams/slot_exchange.hpp"
#include "streams/slot_kernel.hpp"
#include "streams/staged_kernel.hpp"
// With the kernels of slot_exchange.hpp.
#include "reduce/device_loops.hpp"
#include "support/kernels_of_types.hpp"

namespace tandem::test {
namespace {

using detail::slot_work, detail::slot_exchange, detail::staged_copy;

using exchange_kernel = void (*)(slot_exchange);
#define ADD_EXCHANGE(op, type) \
  all["tandem_exchange_" #op "_" #type] = tandem_exchange_##op##_##type;
#define ADD_EXCHANGES(type)   \
  ADD_EXCHANGE(sum, type)     \
  ADD_EXCHANGE(product, type) \
  ADD_EXCHANGE(minimum, type) \
  ADD_EXCHANGE(maximum, type)
#define ADD_EXCHANGES_OF_INTEGERS(type) \
  ADD_EXCHANGES(type)                   \
  ADD_EXCHANGE(band, type)              \
  ADD_EXCHANGE(bor, type)               \
  ADD_EXCHANGE(bxor, type)

std::map<std::string, exchange_kernel> exchange_kernels() {
  std::map<std::string, exchange_kernel> all;
  TANDEM_FOR_ALL_TYPES(ADD_EXCHANGES, ADD_EXCHANGES_OF_INTEGERS)
  return all;
}

template <class T>
void translate(cuda_double& gpus, T*& at, std::size_t bytes) {
  at = reinterpret_cast<T*>(gpus.host(reinterpret_cast<cu::address>(at), bytes));
}

void translate(cuda_double& gpus, detail::slot_direction& each) {
  translate(gpus, each.own, sizeof *each.own);
  try {
    translate(gpus, each.other, sizeof *each.other);
  } catch (const std::out_of_range&) {
    each.other = nullptr;  // the peer has ended: an aborted kernel does not need it
  }
  translate(gpus, each.progress, sizeof *each.progress);
  translate(gpus, each.report, sizeof *each.report);
}

/// With addresses that the processor can access.
template <unsigned Directions, unsigned Messages>
void translate(cuda_double& gpus, detail::slot_work_of<Directions, Messages>& work) {
  for (unsigned i = 0; i < work.directions; ++i) {
    detail::slot_direction& each = work.direction[i];
    translate(gpus, each);
    for (unsigned k = 0; k < each.messages; ++k) {
      detail::slot_message& message = work.message[each.first_message + k];
      translate(gpus, message.data, message.head.bytes);
    }
  }
}

void translate(cuda_double& gpus, slot_exchange& what) {
  translate(gpus, what.send);
  translate(gpus, what.receive);
  if (what.sent != nullptr) translate(gpus, what.sent, what.head.bytes);
  translate(gpus, what.combined, what.head.bytes);
  translate(gpus, what.into, what.head.bytes);
}

void translate(cuda_double& gpus, staged_copy& what) {
  const unsigned words = std::max(detail::blocks_for(what.bytes), 1U);
  if (what.bytes > 0) translate(gpus, what.to, what.bytes);
  if (what.bytes > 0) translate(gpus, what.from, what.bytes);
  if (what.awaited != nullptr) translate(gpus, what.awaited, sizeof *what.awaited);
  translate(gpus, what.copied, words * sizeof *what.copied);
}

/// @param run  the kernel, of a block of one thread
template <class Work>
void run_block(cuda_double& gpus, Work work, unsigned block, void (*run)(Work)) {
  try {
    translate(gpus, work);
  } catch (const std::exception& e) {
    ADD_FAILURE() << "a kernel that waits: " << e.what();
    return;
  }
  blockDim.x = 1;
  threadIdx.x = 0;
  blockIdx.x = block;
  run(work);
}

template <class Work>
Work work_in(const std::vector<std::vector<std::byte>>& arguments) {
  Work work;
  std::memcpy(&work, arguments.front().data(), sizeof work);
  return work;
}

/// 0: half a block has no work of its own.
template <class Work>
unsigned paired_threads_of(const Work&) {
  return 0;
}
unsigned paired_threads_of(const slot_exchange& what) {
  return detail::paired_threads_for(what.head.bytes);
}

}  // namespace

stream_kernels_on_host::stream_kernels_on_host(cuda_double& gpus) {
  const auto& names = detail::stream_kernels::names;
  const auto groups_of = [](const auto& work) { return work.blocks * work.directions; };
  add<slot_work>(gpus, names[0], tandem_carry_messages, groups_of);
  add<detail::short_slot_work>(gpus, names[1], tandem_carry_few, groups_of);
  add<staged_copy>(gpus, names[2], tandem_copy_staged, [this](const staged_copy& what) {
    ++staged_copies_;
    return std::max(detail::blocks_for(what.bytes), 1U);
  });
  for (const auto& [name, run] : exchange_kernels()) {
    add<slot_exchange>(gpus, name, run, [this](const slot_exchange& what) {
      ++exchanges_;
      return 2 * detail::blocks_for(what.head.bytes);
    });
  }
}

template <class Work, class Groups>
void stream_kernels_on_host::add(cuda_double& gpus, const std::string& name, void (*run)(Work),
                                 Groups groups_of) {
  using all_arguments = std::vector<std::vector<std::byte>>;
  gpus.add_waiting_kernel(
      name, {sizeof(Work)},
      [=, this](unsigned blocks, unsigned threads, const all_arguments& arguments,
                cuda_double& on) {
        const auto work = work_in<Work>(arguments);
        const unsigned groups_of_block = threads == paired_threads_of(work) ? 2 : 1;
        if (groups_of_block == 1) {
          EXPECT_EQ(threads, detail::slot_threads);
        }
        const unsigned groups = groups_of(work);
        EXPECT_EQ(blocks * groups_of_block, groups);
        return start(groups, [&on, work, run](unsigned block) { run_block(on, work, block, run); });
      });
}

std::function<bool()> stream_kernels_on_host::start(
    unsigned groups, const std::function<void(unsigned group)>& run) {
  const auto left = std::make_shared<std::atomic<unsigned>>(groups);
  {
    const std::lock_guard lock(mutex_);
    running_ += static_cast<int>(groups);
  }
  for (unsigned group = 0; group < groups; ++group) {
    std::thread([this, run, group, left] {
      run(group);
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
    detail::copy_piece(to, from, bytes, detail::whole_block());
  }
}

}  // namespace tandem::test
