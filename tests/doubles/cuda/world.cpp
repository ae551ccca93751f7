#include "doubles/cuda/world.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

namespace tandem::test::cuda {
namespace {

std::atomic<world*> in_force{nullptr};

}  // namespace

world::world(cuda_double& of, cuda_double::options as)
    : options(std::move(as)),
      owner(of),
      manual(options.manual),
      devices(static_cast<std::size_t>(options.devices)),
      process_(::getpid()),
      chance_(options.seed) {
  void* const taken =
      ::mmap(nullptr, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (taken == MAP_FAILED) throw std::bad_alloc();
  range_ = static_cast<std::byte*>(taken);
  for (device& each : devices) {
    each.ordinal = static_cast<int>(&each - devices.data());
    each.default_stream = std::make_shared<stream>();
    each.default_stream->device = each.ordinal;
    streams.push_back(each.default_stream);
  }
  detail::cuda& table = functions();
  table = {};
  fill_words(table);
  fill_devices(table);
  fill_contexts(table);
  fill_memory(table);
  fill_host_memory(table);
  fill_movement(table);
  fill_streams(table);
  fill_events(table);
  fill_ipc(table);
  fill_modules(table);
  fill_pages(table);
  world* none = nullptr;
  if (!in_force.compare_exchange_strong(none, this)) {
    ADD_FAILURE() << "another double is in force";
    in_force.store(this);
  }
  detail::replace_cuda(&table);
}

world::~world() {
  {
    const lock held(mutex);
    over_ = true;
    changed.notify_all();
  }
  if (worker_.joinable()) worker_.join();
  detail::replace_cuda(nullptr);
  in_force.store(nullptr);
  ::munmap(range_, range_bytes);
}

world* world::now() noexcept {
  return in_force.load();
}

/// Never destroyed: users may keep the table and call it after the double is gone.
detail::cuda& world::functions() noexcept {
  static detail::cuda table{};
  return table;
}

std::uintptr_t world::next_handle() noexcept {
  static std::atomic<std::uintptr_t> last{0x00d0'0000'0000'0000};
  return last += 16;
}

cu::result world::refusal(world& in, const char* name) {
  if (::getpid() != in.process_) return cu::not_initialized;
  if (!inside_work()) return cu::success;
  const lock held(in.mutex);
  return in.misuse(cu::not_permitted,
                   std::string(name) + ": called from a host function or a kernel");
}

cu::result world::injected(const char* name) {
  ++counts[name];
  if (locked > 0) misuse(cu::success, std::string(name) + ": called while the driver is locked");
  cu::result with = cu::success;
  std::erase_if(faults, [&](fault& each) {
    if (each.function != name || --each.at_call > 0) return false;
    with = each.with;
    return true;
  });
  return with;
}

cu::result world::misuse(cu::result with, std::string what) {
  const bool is_new = std::find(violations.begin(), violations.end(), what) == violations.end();
  if (is_new) violations.push_back(std::move(what));
  return with;
}

void world::quiesce(lock& held) {
  changed.wait(held, [&] { return running_unlocked_ == 0; });
}

cuda_double::objects world::open() const {
  cuda_double::objects left;
  for (const auto& [base, each] : regions) {
    switch (each.kind) {
      case region_kind::allocation:
        ++left.allocations;
        left.device_bytes += each.bytes;
        break;
      case region_kind::opening:
        ++left.openings;
        break;
      case region_kind::pages:
        ++(each.is_of_test ? left.allocations : left.openings);
        break;
      case region_kind::pinned:
        ++left.pinned;
        break;
      case region_kind::registered:
        ++left.registrations;
        break;
    }
  }
  for (const auto& each : streams) left.streams += each->handle != nullptr && !each->destroyed;
  left.events = events.size();
  left.modules = modules.size();
  left.page_handles = page_handles.size();
  for (const auto& [thread, stack] : stacks) left.pushed_contexts += stack.size();
  return left;
}

/// Empty: nothing is left. Executes what can still be executed first.
std::string world::audit(lock& held) {
  manual = true;
  while (step(held) || running_unlocked_ > 0) {
    if (running_unlocked_ > 0) quiesce(held);
  }
  std::string found;
  for (const auto& each : streams) {
    if (each->waiting.empty()) continue;
    found += "never done: " + std::to_string(each->waiting.size()) + " pieces of work, first a " +
             each->waiting.front().what + "\n";
  }
  const cuda_double::objects left = open();
  if (left != cuda_double::objects{}) {
    found += "left open: " + std::to_string(left.allocations) + " allocations (" +
             std::to_string(left.device_bytes) + " bytes), " + std::to_string(left.pinned) +
             " of pinned memory, " + std::to_string(left.registrations) + " registrations, " +
             std::to_string(left.streams) + " streams, " + std::to_string(left.events) +
             " events, " + std::to_string(left.modules) + " modules, " +
             std::to_string(left.openings) + " openings, " + std::to_string(left.page_handles) +
             " handles of pages, " + std::to_string(left.pushed_contexts) + " pushed contexts\n";
  }
  std::vector<std::string> missing = expected;
  for (const std::string& each : violations) {
    const auto is_it = [&](const std::string& words) {
      return each.find(words) != std::string::npos;
    };
    if (std::none_of(expected.begin(), expected.end(), is_it)) found += "misuse: " + each + "\n";
    std::erase_if(missing, is_it);
  }
  for (const std::string& each : missing)
    found += "expected misuse that did not occur: " + each + "\n";
  for (const fault& each : faults) found += "never called: " + each.function + "\n";
  return found;
}

}  // namespace tandem::test::cuda
