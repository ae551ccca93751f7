#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "doubles/cuda/world.hpp"

namespace tandem::test::cuda {
namespace {

std::string hex(cu::address at) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", at);
  return text.data();
}

cu::result allocate(cu::address* into, std::size_t bytes) {
  return call_on_device("cuMemAlloc", [&](world& in, world::lock&, device& at) {
    if (bytes == 0) return cu::invalid_value;
    if (bytes > in.options.memory_bytes - at.used_bytes) return cu::out_of_memory;
    region made;
    made.owned = backing::make(bytes);
    made.base = in.reserve(bytes);
    if (!made.owned || made.base == 0) return cu::out_of_memory;
    made.bytes = bytes;
    made.device = at.ordinal;
    made.data = made.owned->data();
    made.id = in.next_handle();
    at.used_bytes += bytes;
    *into = made.base;
    in.regions.emplace(made.base, made);
    return cu::success;
  });
}

cu::result free_memory(cu::address which) {
  return call_to_free("cuMemFree", [&](world& in) {
    const auto found = in.regions.find(which);
    if (found == in.regions.end() || found->second.kind != region_kind::allocation) {
      return in.misuse(cu::invalid_value, "cuMemFree: " + in.what_is(which));
    }
    in.devices[static_cast<std::size_t>(found->second.device)].used_bytes -= found->second.bytes;
    in.remove(which);
    return cu::success;
  });
}

cu::result pointer_attribute(void* into, int which, cu::address of) {
  return call("cuPointerGetAttribute", [&](world& in, world::lock&) {
    const region* const found = in.find(of);
    if (found == nullptr) return cu::invalid_value;
    switch (which) {
      case cu::pointer_memory_type:
        *static_cast<unsigned*>(into) =
            found->is_host() ? cu::memory_type_host : cu::memory_type_device;
        return cu::success;
      case cu::pointer_device_ordinal:
        *static_cast<int*>(into) = found->device;
        return cu::success;
      case cu::pointer_buffer_id:
        if (found->kind != region_kind::pages) {
          *static_cast<unsigned long long*>(into) = found->id;
        } else if (const region::part* const part = found->part_at(of)) {
          *static_cast<unsigned long long*>(into) = part->id;
        } else {
          return cu::invalid_value;
        }
        return cu::success;
      case cu::pointer_is_ipc_capable:
        *static_cast<bool*>(into) = found->kind == region_kind::allocation;
        return cu::success;
      default:
        return cu::invalid_value;
    }
  });
}

cu::result address_range(cu::address* base, std::size_t* bytes, cu::address of) {
  return call_on_device("cuMemGetAddressRange", [&](world& in, world::lock&, device&) {
    const region* const found = in.find(of);
    if (found == nullptr) return cu::invalid_value;
    const bool is_of_pages = found->kind == region_kind::pages;
    const region::part* const part = is_of_pages ? found->part_at(of) : nullptr;
    if (is_of_pages && part == nullptr) return cu::invalid_value;
    if (base != nullptr) *base = found->base + (is_of_pages ? part->offset : 0);
    if (bytes != nullptr) *bytes = is_of_pages ? part->memory->bytes : found->bytes;
    return cu::success;
  });
}

}  // namespace

std::shared_ptr<backing> backing::map(int descriptor, std::size_t bytes) {
  if (descriptor < 0) return nullptr;
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED) return ::close(descriptor), nullptr;
  return std::shared_ptr<backing>(new backing(descriptor, static_cast<std::byte*>(at), bytes));
}

std::shared_ptr<backing> backing::make(std::size_t bytes) {
  const int descriptor = ::memfd_create("device memory", MFD_CLOEXEC);
  const std::size_t pages = (bytes + page - 1) / page * page;
  if (descriptor >= 0 && ::ftruncate(descriptor, static_cast<off_t>(pages)) != 0) {
    return ::close(descriptor), nullptr;
  }
  std::shared_ptr<backing> made = map(descriptor, bytes);
  // New memory has arbitrary content.
  if (made) std::memset(made->data(), 0xcd, std::min(bytes, std::size_t{1} << 20));
  return made;
}

std::shared_ptr<backing> backing::of_process(int process, int descriptor, std::size_t bytes) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(descriptor);
  return map(::open(path.c_str(), O_RDWR | O_CLOEXEC), bytes);
}

backing::~backing() {
  for (const part& each : parts_) ::close(each.descriptor);
  ::munmap(data_, bytes_);
  ::close(descriptor_);
}

cu::address world::reserve(std::size_t bytes) {
  const std::size_t between = options.side_by_side ? 0 : page;
  const std::size_t taken = (bytes + page - 1) / page * page + between;
  if (taken > range_bytes - range_used_) return 0;
  const auto at = reinterpret_cast<cu::address>(range_ + range_used_);
  range_used_ += taken;
  return at;
}

int world::left_by_copy(cu::address to, cu::address from) {
  const region* const target = find(to);
  const region* const source = find(from);
  const bool is_between_devices = target != nullptr && source != nullptr && !target->is_host() &&
                                  !source->is_host() && target->device != source->device;
  return is_between_devices ? source->device : -1;
}

bool world::is_device_address(cu::address at) const noexcept {
  const auto first = reinterpret_cast<cu::address>(range_);
  return at >= first && at - first < range_bytes;
}

region* world::find(cu::address at) {
  auto after = regions.upper_bound(at);
  if (after == regions.begin()) return nullptr;
  region& before = std::prev(after)->second;
  return at - before.base < before.bytes ? &before : nullptr;
}

std::string world::what_is(cu::address at) {
  if (const region* const found = find(at)) {
    return hex(at) + " is " + std::to_string(at - found->base) + " bytes into " +
           (found->kind == region_kind::allocation ? "an allocation of "
            : found->kind == region_kind::opening  ? "what an IPC handle opened, of "
            : found->kind == region_kind::pages    ? "addresses for pages, "
            : found->kind == region_kind::pinned   ? "pinned memory of "
                                                   : "registered memory of ") +
           std::to_string(found->bytes) + " bytes";
  }
  const auto after = freed.upper_bound(at);
  if (after != freed.begin() && at - std::prev(after)->first < std::prev(after)->second) {
    return hex(at) + " is freed, or closed";
  }
  return hex(at) + (is_device_address(at) ? " is no address of an allocation" : " is pageable");
}

/// Work being executed may still access it.
void world::remove(cu::address base) {
  const auto found = regions.find(base);
  if (is_device_address(base)) freed.emplace(base, found->second.bytes);
  if (running_unlocked_ > 0) unmapped_later_.push_back(found->second.owned);
  regions.erase(found);
}

void fill_memory(detail::cuda& table) {
  table.allocate = allocate;
  table.free = free_memory;
  table.pointer_attribute = pointer_attribute;
  table.address_range = address_range;
}

}  // namespace tandem::test::cuda
