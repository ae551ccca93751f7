#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "doubles/allocations.hpp"
#include "doubles/cuda/objects.hpp"

namespace tandem::test::cuda {

inline constexpr std::size_t page = 4096;

/// The state of one double. Its functions require the mutex, unless stated otherwise.
class world {
 public:
  using lock = std::unique_lock<simulation_mutex>;

  world(cuda_double& of, cuda_double::options as);
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// The live double's state, or null. Without the mutex.
  static world* now() noexcept;
  static detail::cuda& functions() noexcept;

  // Calls.
  /// The error where calls are not allowed: in a child of fork, in a host function. Locks the
  /// mutex.
  static cu::result refusal(world& in, const char* name);
  /// Counts the call; returns its injected result.
  cu::result injected(const char* name);
  /// Records misuse; returns `with`.
  cu::result misuse(cu::result with, std::string what);
  bool may_reach(int from, int memory_of) const;
  /// The device of the thread's current context; null: none.
  device* current();

  // Memory.
  region* find(cu::address at);
  /// The host address of memory as `by` accesses it; null where it cannot: then `why` is set.
  std::byte* reach(cu::address at, std::size_t bytes, int by, bool& pageable, std::string& why);
  std::string what_is(cu::address at);
  /// The device that is the source of a copy to another device, or -1.
  int left_by_copy(cu::address to, cu::address from);
  /// Addresses that were never used; 0: out of addresses.
  cu::address reserve(std::size_t bytes);
  bool is_device_address(cu::address at) const noexcept;
  void remove(cu::address base);

  // Execution.
  /// `which`: null is the default stream of `at`. Returns null: no such stream.
  std::shared_ptr<stream> stream_of(cu::stream which, device& at);
  cu::result queue(stream& on, work what);
  /// Waits until all work that is queued on it now is complete. Unlocks meanwhile.
  cu::result synchronize(lock& held, const std::shared_ptr<stream>& which);
  bool step(lock& held, std::optional<cu::stream> only = std::nullopt);
  void break_now(device& which, cu::result with);
  /// Called by a copy that is being executed: a lock of the mutex, unless the thread has it.
  std::unique_ptr<lock> lock_for_copy() {
    return options.concurrent_copies ? std::make_unique<lock>(mutex) : nullptr;
  }
  /// Removes destroyed streams whose work is complete.
  void forget_idle();
  /// Waits until no work is being executed without the mutex.
  void quiesce(lock& held);

  std::uintptr_t next_handle() noexcept;
  template <class Handle>
  Handle handle() noexcept {
    return reinterpret_cast<Handle>(next_handle());
  }
  std::string audit(lock& held);
  cuda_double::objects open() const;

  const cuda_double::options options;
  mutable simulation_mutex mutex;
  std::condition_variable_any changed;
  cuda_double& owner;
  bool manual;
  std::vector<device> devices;
  std::map<cu::address, region> regions;         ///< by base
  std::map<cu::address, std::size_t> freed;      ///< device memory that was freed
  std::vector<std::shared_ptr<stream>> streams;  ///< also default, and destroyed ones with work
  std::map<cu::event, event> events;
  std::map<cu::pages, std::shared_ptr<page_memory>> page_handles;
  std::map<cu::module, module> modules;
  std::map<std::string, kernel> kernels;
  std::map<std::thread::id, std::vector<int>> stacks;  ///< of contexts
  std::map<std::string, std::size_t> counts;
  int locked = 0;           ///< by tests: calls are misuse
  int hardware_queues = 0;  ///< of each priority, shared by new streams; 0: each has its own
  int streams_made = 0;
  std::vector<std::string> violations;
  std::vector<std::string> expected;
  struct fault {
    std::string function;
    int at_call;
    cu::result with;
  };
  std::vector<fault> faults;
  cuda_double::traffic seen;

 private:
  bool may_start(const stream& of, const work& what) const;
  bool has_engine(const stream& of, const work& what) const;
  bool is_ready(stream& of);
  std::optional<clock::time_point> next_poll() const;
  void serve();

  const int process_;
  static constexpr std::size_t range_bytes = std::size_t{1} << 38;
  std::byte* range_ = nullptr;
  std::size_t range_used_ = 0;
  std::uint64_t next_ticket_ = 0;
  std::mt19937_64 chance_;
  clock::time_point last_step_{};     ///< by the last step
  std::size_t running_unlocked_ = 0;  ///< work being executed without the mutex
  std::vector<std::shared_ptr<backing>> unmapped_later_;
  bool over_ = false;
  /// Started with the first work: a test that forks before that has no second thread, whose locks
  /// the child would inherit.
  std::thread worker_;
};

/// A call: `body(world&, lock&)`.
template <class Body>
cu::result call(const char* name, Body body) {
  world* const in = world::now();
  if (in == nullptr) return cu::deinitialized;
  if (const cu::result refused = world::refusal(*in, name)) return refused;
  world::lock held(in->mutex);
  if (const cu::result asked = in->injected(name)) return asked;
  return body(*in, held);
}

/// A call that needs a current context: `body(world&, lock&, device&)`.
template <class Body>
cu::result call_on_device(const char* name, Body body) {
  return call(name, [&](world& in, world::lock& held) -> cu::result {
    device* const at = in.current();
    if (at == nullptr) return cu::invalid_context;
    if (at->broken != cu::success) return at->broken;
    return body(in, held, *at);
  });
}

/// A call that frees something, although it may return an error: `body(world&)`.
template <class Body>
cu::result call_to_free(const char* name, Body body) {
  world* const in = world::now();
  if (in == nullptr) return cu::deinitialized;
  if (const cu::result refused = world::refusal(*in, name)) return refused;
  const world::lock held(in->mutex);
  const cu::result asked = in->injected(name);
  device* const at = in->current();
  if (at == nullptr) return asked != cu::success ? asked : cu::invalid_context;
  const cu::result done = body(*in);
  if (asked != cu::success) return asked;
  return at->broken != cu::success ? at->broken : done;
}

/// In which the calls of this thread are checked while a stream is captured.
cu::capture_mode& this_threads_capture_mode() noexcept;

/// True on a thread that executes a host function or a kernel.
bool& inside_work() noexcept;

// `cuda_double::make_pages` and `renew_pages`.
cu::address make_pages(world& in, int device, const std::vector<std::size_t>& bytes);
void renew_pages(world& in, cu::address at);

/// The exported name of a function without version; empty: none.
std::string exported_name(const std::string& of);

// Each adds its functions to the table.
void fill_words(detail::cuda& table);
void fill_devices(detail::cuda& table);
void fill_contexts(detail::cuda& table);
void fill_memory(detail::cuda& table);
void fill_host_memory(detail::cuda& table);
void fill_movement(detail::cuda& table);
void fill_streams(detail::cuda& table);
void fill_events(detail::cuda& table);
void fill_ipc(detail::cuda& table);
void fill_modules(detail::cuda& table);
void fill_pages(detail::cuda& table);

}  // namespace tandem::test::cuda
