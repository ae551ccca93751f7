// Pages that are made apart from their addresses.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "doubles/cuda/world.hpp"

namespace tandem::test::cuda {
namespace {

constexpr const char* memory_name = "pages of device %d";

/// The device in the name of the memory behind a descriptor; -1: it is no such memory.
int device_of(int descriptor) {
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  std::array<char, 64> target{};
  int device = -1;
  if (::readlink(path.c_str(), target.data(), target.size() - 1) < 0) return -1;
  return std::sscanf(target.data(), "/memfd:pages of device %d ", &device) == 1 ? device : -1;
}

std::shared_ptr<page_memory> make_memory(int device, std::size_t bytes) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), memory_name, device);
  const int made = ::memfd_create(name.data(), MFD_CLOEXEC);
  if (made < 0 || ::ftruncate(made, static_cast<off_t>(bytes)) != 0) return nullptr;
  return std::make_shared<page_memory>(made, bytes, device);
}

bool map_part(world& in, region& into, std::size_t offset, std::shared_ptr<page_memory> what) {
  if (::mmap(into.data + offset, what->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             what->descriptor, 0) == MAP_FAILED) {
    return false;
  }
  into.device = what->device;
  into.parts.push_back({offset, in.next_handle(), std::move(what)});
  return true;
}

void unmap_parts(region& of) {
  ::mmap(of.data, of.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
  of.parts.clear();
  of.accessible.clear();
}

region* whole(world& in, cu::address base, std::size_t bytes) {
  region* const found = in.find(base);
  const bool is_whole = found != nullptr && found->kind == region_kind::pages &&
                        found->base == base && found->bytes == bytes;
  return is_whole ? found : nullptr;
}

/// Host addresses without memory, for parts.
std::shared_ptr<std::byte> reserve_host(std::size_t bytes) {
  void* const at =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(at), [bytes](std::byte* of) { ::munmap(of, bytes); }};
}

/// Addresses for pages; 0: out of addresses.
cu::address reserve_pages(world& in, std::size_t bytes) {
  region made;
  made.host_addresses = reserve_host(bytes);
  made.base = in.reserve(bytes);
  if (!made.host_addresses || made.base == 0) return 0;
  made.kind = region_kind::pages;
  made.bytes = bytes;
  made.data = made.host_addresses.get();
  in.regions.emplace(made.base, made);
  return made.base;
}

/// No misuse on other memory: this is how a program asks whether it has pages.
cu::result retain_pages(cu::pages* into, void* mapped_at) {
  return call("cuMemRetainAllocationHandle", [&](world& in, world::lock&) {
    const auto at = reinterpret_cast<cu::address>(mapped_at);
    const region* const found = in.find(at);
    const region::part* const part = found != nullptr ? found->part_at(at) : nullptr;
    if (part == nullptr) return cu::invalid_value;
    *into = in.next_handle();
    in.page_handles[*into] = part->memory;
    return cu::success;
  });
}

cu::result release_pages(cu::pages which) {
  return call_to_free("cuMemRelease", [&](world& in) {
    return in.page_handles.erase(which) == 1 ? cu::success
                                             : in.misuse(cu::invalid_value, "cuMemRelease");
  });
}

cu::result export_pages(void* descriptor_into, cu::pages which, int type, unsigned long long) {
  return call("cuMemExportToShareableHandle", [&](world& in, world::lock&) {
    const auto found = in.page_handles.find(which);
    if (found == in.page_handles.end() || type != cu::posix_descriptor) {
      return in.misuse(cu::invalid_value, "cuMemExportToShareableHandle");
    }
    const int made = ::fcntl(found->second->descriptor, F_DUPFD, 0);
    std::memcpy(descriptor_into, &made, sizeof made);
    return cu::success;
  });
}

cu::result import_pages(cu::pages* into, void* descriptor, int type) {
  return call("cuMemImportFromShareableHandle", [&](world& in, world::lock&) {
    const auto given = static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor));
    const int device = device_of(given);
    struct stat about {};
    if (type != cu::posix_descriptor || device < 0 || ::fstat(given, &about) != 0) {
      return cu::invalid_value;
    }
    *into = in.next_handle();
    in.page_handles[*into] = std::make_shared<page_memory>(
        ::fcntl(given, F_DUPFD_CLOEXEC, 0), static_cast<std::size_t>(about.st_size), device);
    return cu::success;
  });
}

cu::result reserve_addresses(cu::address* into, std::size_t bytes, std::size_t, cu::address,
                             unsigned long long) {
  return call("cuMemAddressReserve", [&](world& in, world::lock&) {
    *into = reserve_pages(in, bytes);
    return *into != 0 ? cu::success : cu::out_of_memory;
  });
}

cu::result free_addresses(cu::address which, std::size_t bytes) {
  return call_to_free("cuMemAddressFree", [&](world& in) {
    region* const found = whole(in, which, bytes);
    if (found == nullptr || !found->parts.empty()) {
      return in.misuse(cu::invalid_value, "cuMemAddressFree: " + in.what_is(which));
    }
    in.remove(which);
    return cu::success;
  });
}

cu::result map_pages(cu::address at, std::size_t bytes, std::size_t offset, cu::pages which,
                     unsigned long long) {
  return call("cuMemMap", [&](world& in, world::lock&) {
    region* const into = in.find(at);
    const auto found = in.page_handles.find(which);
    if (into == nullptr || into->kind != region_kind::pages || found == in.page_handles.end() ||
        offset != 0 || bytes != found->second->bytes || bytes > into->bytes - (at - into->base)) {
      return in.misuse(cu::invalid_value, "cuMemMap: " + in.what_is(at));
    }
    return map_part(in, *into, at - into->base, found->second) ? cu::success : map_failed;
  });
}

/// Of all that is mapped.
cu::result unmap_pages(cu::address at, std::size_t bytes) {
  return call_to_free("cuMemUnmap", [&](world& in) {
    region* const found = in.find(at);
    if (found == nullptr || found->kind != region_kind::pages || found->base != at ||
        found->parts.empty() || found->parts.back().end() != bytes) {
      return in.misuse(cu::invalid_value, "cuMemUnmap: " + in.what_is(at));
    }
    unmap_parts(*found);
    return cu::success;
  });
}

cu::result set_access(cu::address at, std::size_t bytes, const cu::page_access* to,
                      std::size_t count) {
  return call("cuMemSetAccess", [&](world& in, world::lock&) {
    region* const found = whole(in, at, bytes);
    if (found == nullptr || found->parts.empty() || found->parts.back().end() != bytes) {
      return in.misuse(cu::invalid_value, "cuMemSetAccess: " + in.what_is(at));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const int device = to[i].device;
      if (device != found->device && !in.may_reach(device, found->device)) {
        return peer_access_unsupported;
      }
      found->accessible.insert(device);
    }
    return cu::success;
  });
}

}  // namespace

page_memory::~page_memory() {
  ::close(descriptor);
}

const region::part* region::part_at(cu::address at) const {
  for (const part& each : parts) {
    if (at - base >= each.offset && at - base < each.end()) return &each;
  }
  return nullptr;
}

cu::address make_pages(world& in, int device, const std::vector<std::size_t>& bytes) {
  std::size_t all = 0;
  for (const std::size_t each : bytes) all += each;
  const cu::address base = reserve_pages(in, all);
  region& made = in.regions.at(base);
  std::size_t offset = 0;
  for (const std::size_t each : bytes) {
    map_part(in, made, offset, make_memory(device, each));
    offset += each;
  }
  made.accessible.insert(device);
  made.is_of_test = true;
  return base;
}

void renew_pages(world& in, cu::address at) {
  region& of = *in.find(at);
  for (region::part& each : of.parts) {
    if (at - of.base < each.offset || at - of.base >= each.end()) continue;
    region fresh;
    fresh.data = of.data;
    map_part(in, fresh, each.offset, make_memory(of.device, each.memory->bytes));
    each = fresh.parts.front();
  }
}

void fill_pages(detail::cuda& table) {
  table.retain_pages = retain_pages;
  table.release_pages = release_pages;
  table.export_pages = export_pages;
  table.import_pages = import_pages;
  table.reserve_addresses = reserve_addresses;
  table.free_addresses = free_addresses;
  table.map_pages = map_pages;
  table.unmap_pages = unmap_pages;
  table.set_access = set_access;
}

}  // namespace tandem::test::cuda
