// The exported functions for memory: allocations, and buffers that a program registers.
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <tandem/accelerator.hpp>

#include "arguments.hpp"
#include "vendor_library.hpp"

using namespace tandem::nccl_abi;
using tandem::memory_kind;

namespace {

/// What ncclMemAlloc has allocated.
class allocations {
 public:
  static allocations& of_process() {
    static allocations& only = *new allocations;
    return only;
  }

  void* make(own_memory in, std::size_t bytes) {
    void* made = nullptr;
    if (in.kind == memory_kind::host) {
      constexpr std::size_t page_bytes = 4096;
      made = std::aligned_alloc(page_bytes, (bytes + page_bytes - 1) / page_bytes * page_bytes);
      if (made == nullptr) refuse(system_error, fmt::format("no {} bytes of memory", bytes));
    } else if (const vendor_library& by = vendor_library_of(in.kind); by.allocate != nullptr) {
      require_ok(by.allocate(&made, bytes), *by.base, nullptr, "ncclMemAlloc");
    } else {
      made = tandem::accelerator_at(in.kind, in.device).allocate(bytes);
    }
    const std::lock_guard lock(mutex_);
    made_[made] = in;
    return made;
  }

  void free(void* which) {
    own_memory in;
    {
      const std::lock_guard lock(mutex_);
      const auto found = made_.find(which);
      if (found == made_.end())
        refuse(invalid_argument, "ncclMemFree: ncclMemAlloc has not allocated this");
      in = found->second;
      made_.erase(found);
    }
    if (in.kind == memory_kind::host) {
      std::free(which);
    } else if (const vendor_library& by = vendor_library_of(in.kind); by.free != nullptr) {
      require_ok(by.free(which), *by.base, nullptr, "ncclMemFree");
    } else {
      tandem::accelerator_at(in.kind, in.device).free(which);
    }
  }

 private:
  std::mutex mutex_;
  std::map<void*, own_memory> made_;
};

/// For buffers that channels carry, which need no registration.
char nothing_registered;

/// The vendor's library, if it carries the communicator's calls and has the function.
template <class Function>
bool is_by_library(const comm_rank& by, Function vendor_library::*which) {
  return by.is_one_island() && by.library().*which != nullptr;
}

}  // namespace

TANDEM_NCCL_FUNCTION(result, ncclMemAlloc, (void** into, std::size_t bytes)) {
  return guarded(nullptr, [&] {
    if (into == nullptr) refuse(invalid_argument, "ncclMemAlloc: the pointer is NULL");
    *into = bytes == 0 ? nullptr : allocations::of_process().make(memory_of_thread(), bytes);
  });
}

TANDEM_NCCL_FUNCTION(result, ncclMemFree, (void* which)) {
  return guarded(nullptr, [&] {
    if (which != nullptr) allocations::of_process().free(which);
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommRegister,
                     (comm of, void* from, std::size_t bytes, void** into)) {
  return guarded(nullptr, [&] {
    const auto by = checked(of, "ncclCommRegister");
    if (into == nullptr) refuse(invalid_argument, "ncclCommRegister: no pointer for the handle");
    by->require_ready();
    *into = &nothing_registered;
    if (!is_by_library(*by, &vendor_library::register_buffer)) return;
    const std::lock_guard held(by->library_mutex());
    const auto native = by->native();
    require_ok(by->library().register_buffer(native, from, bytes, into), *by->library().base,
               native, "ncclCommRegister");
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommDeregister, (comm of, void* handle)) {
  return guarded(nullptr, [&] {
    const auto by = checked(of, "ncclCommDeregister");
    if (handle == &nothing_registered || !is_by_library(*by, &vendor_library::deregister)) return;
    const std::lock_guard held(by->library_mutex());
    const auto native = by->native();
    require_ok(by->library().deregister(native, handle), *by->library().base, native,
               "ncclCommDeregister");
  });
}

/// Kernels of the program access the memory of other ranks through a window.
TANDEM_NCCL_FUNCTION(result, ncclCommWindowRegister,
                     (comm of, void* from, std::size_t bytes, window* into, int flags)) {
  return guarded(comm_table::of_process().find(of).get(), [&] {
    const auto by = checked(of, "ncclCommWindowRegister");
    if (into == nullptr)
      refuse(invalid_argument, "ncclCommWindowRegister: no pointer for the window");
    *into = nullptr;
    by->require_ready();
    if (!is_by_library(*by, &vendor_library::register_window)) {
      refuse(invalid_usage,
             "ncclCommWindowRegister: kernels cannot access the memory of another island; windows "
             "are for communicators inside of one, with NCCL 2.27 or newer");
    }
    const std::lock_guard held(by->library_mutex());
    const auto native = by->native();
    require_ok(by->library().register_window(native, from, bytes, into, flags), *by->library().base,
               native, "ncclCommWindowRegister");
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommWindowDeregister, (comm of, window which)) {
  return guarded(nullptr, [&] {
    const auto by = checked(of, "ncclCommWindowDeregister");
    if (which == nullptr || !is_by_library(*by, &vendor_library::deregister_window)) return;
    const std::lock_guard held(by->library_mutex());
    const auto native = by->native();
    require_ok(by->library().deregister_window(native, which), *by->library().base, native,
               "ncclCommWindowDeregister");
  });
}
