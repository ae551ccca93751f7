#include "doubles/cuda/world.hpp"

namespace tandem::test::cuda {
namespace {

constexpr unsigned all_flags = cu::host_portable | cu::host_mapped;

cu::address address_of(const void* at) {
  return reinterpret_cast<cu::address>(at);
}

bool overlaps(world& in, cu::address from, std::size_t bytes) {
  const auto next = in.regions.lower_bound(from);
  return in.find(from) != nullptr || (next != in.regions.end() && next->first - from < bytes);
}

cu::result allocate_host(void** into, std::size_t bytes, unsigned flags) {
  return call_on_device("cuMemHostAlloc", [&](world& in, world::lock&, device& at) {
    if (bytes == 0 || (flags & ~all_flags) != 0) return cu::invalid_value;
    region made;
    made.kind = region_kind::pinned;
    made.owned = backing::make(bytes);
    if (!made.owned) return cu::out_of_memory;
    made.data = made.owned->data();
    made.base = address_of(made.data);
    made.bytes = bytes;
    made.device = at.ordinal;
    *into = made.data;
    in.regions.emplace(made.base, made);
    return cu::success;
  });
}

cu::result free_host(void* which) {
  return call_to_free("cuMemFreeHost", [&](world& in) {
    const auto found = in.regions.find(address_of(which));
    if (found == in.regions.end() || found->second.kind != region_kind::pinned) {
      return in.misuse(cu::invalid_value, "cuMemFreeHost: " + in.what_is(address_of(which)));
    }
    in.remove(found->first);
    return cu::success;
  });
}

cu::result register_host(void* from, std::size_t bytes, unsigned flags) {
  return call_on_device("cuMemHostRegister", [&](world& in, world::lock&, device& at) {
    const cu::address base = address_of(from);
    if (from == nullptr || bytes == 0 || (flags & ~all_flags) != 0) return cu::invalid_value;
    if (in.is_device_address(base)) {
      return in.misuse(cu::invalid_value, "cuMemHostRegister: " + in.what_is(base));
    }
    if (overlaps(in, base, bytes)) return cu::host_memory_already_registered;
    region made;
    made.kind = region_kind::registered;
    made.base = base;
    made.bytes = bytes;
    made.device = at.ordinal;
    made.data = static_cast<std::byte*>(from);
    in.regions.emplace(base, made);
    return cu::success;
  });
}

cu::result unregister_host(void* from) {
  return call_to_free("cuMemHostUnregister", [&](world& in) {
    const auto found = in.regions.find(address_of(from));
    if (found == in.regions.end() || found->second.kind != region_kind::registered) {
      return in.misuse(host_memory_not_registered,
                       "cuMemHostUnregister: " + in.what_is(address_of(from)));
    }
    in.remove(found->first);
    return cu::success;
  });
}

cu::result host_address(cu::address* into, void* of, unsigned flags) {
  return call_on_device("cuMemHostGetDevicePointer", [&](world& in, world::lock&, device&) {
    const region* const found = in.find(address_of(of));
    if (flags != 0 || found == nullptr || !found->is_host()) return cu::invalid_value;
    *into = address_of(of);
    return cu::success;
  });
}

}  // namespace

void fill_host_memory(detail::cuda& table) {
  table.allocate_host = allocate_host;
  table.free_host = free_host;
  table.register_host = register_host;
  table.unregister_host = unregister_host;
  table.host_address = host_address;
}

}  // namespace tandem::test::cuda
