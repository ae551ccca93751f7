#include <tuple>

#include "doubles/hip/translation.hpp"

using namespace tandem::test::translation;
using tandem::detail::cuda;

namespace {

constexpr unsigned not_coherent = 0x80000000;
constexpr unsigned shared_flags = amd::host_portable | amd::host_mapped;  // the same in CUDA

}  // namespace

amd::result hipMalloc(void** into, std::size_t bytes) {
  cu::address made = 0;
  const amd::result result = on_device([&](const cuda& in) { return in.allocate(&made, bytes); });
  *into = pointer_to(made);
  return result;
}

amd::result hipFree(void* which) {
  return on_device([=](const cuda& in) { return in.free(address_of(which)); });
}

amd::result hipHostMalloc(void** into, std::size_t bytes, unsigned flags) {
  if ((flags & amd::host_coherent) != 0 && (flags & not_coherent) != 0) {
    return keep_own(amd::invalid_value);
  }
  return on_device(
      [=](const cuda& in) { return in.allocate_host(into, bytes, flags & shared_flags); });
}

amd::result hipHostFree(void* which) {
  return on_device([=](const cuda& in) { return in.free_host(which); });
}

amd::result hipHostRegister(void* from, std::size_t bytes, unsigned flags) {
  if ((flags & ~shared_flags) != 0) return keep_own(amd::invalid_value);
  return on_device([=](const cuda& in) { return in.register_host(from, bytes, flags); });
}

amd::result hipHostUnregister(void* from) {
  return on_device([=](const cuda& in) { return in.unregister_host(from); });
}

amd::result hipHostGetDevicePointer(void** into, void* of, unsigned flags) {
  cu::address at = 0;
  const amd::result result =
      on_device([&](const cuda& in) { return in.host_address(&at, of, flags); });
  *into = pointer_to(at);
  return result;
}

amd::result hipPointerGetAttribute(void* into, int which, void* of) {
  if (of == nullptr) return keep_own(amd::invalid_value);
  if (which == amd::pointer_device_ordinal || which == amd::pointer_buffer_id) {
    const int same =
        which == amd::pointer_buffer_id ? cu::pointer_buffer_id : cu::pointer_device_ordinal;
    return on_device(
        [=](const cuda& in) { return in.pointer_attribute(into, same, address_of(of)); });
  }
  if (which != amd::pointer_memory_type) return keep_own(amd::not_supported);
  unsigned type = 0;
  const amd::result result = on_device([&](const cuda& in) {
    return in.pointer_attribute(&type, cu::pointer_memory_type, address_of(of));
  });
  const int device_type = amd::memory_type_device(amd::major_of(profile().version));
  *static_cast<int*>(into) = type == cu::memory_type_device ? device_type : device_type - 1;
  return result;
}

amd::result hipMemGetAddressRange(void** base, std::size_t* bytes, void* of) {
  cu::address first = 0;
  const amd::result result =
      on_device([&](const cuda& in) { return in.address_range(&first, bytes, address_of(of)); });
  *base = pointer_to(first);
  return result == amd::invalid_value ? keep_own(amd::not_found) : result;
}

amd::result hipMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind,
                           amd::stream on) {
  if (kind != amd::copy_any) return keep_own(21);  // hipErrorInvalidMemcpyDirection
  return on_device(
      [=](const cuda& in) { return in.copy(address_of(to), address_of(from), bytes, as(on)); });
}

amd::result hipMemsetAsync(void* to, int with, std::size_t bytes, amd::stream on) {
  return on_device([=](const cuda& in) {
    return in.fill(address_of(to), static_cast<unsigned char>(with), bytes, as(on));
  });
}

amd::result hipIpcGetMemHandle(amd::ipc_handle* into, void* of) {
  cu::ipc_handle made{};
  const amd::result result =
      on_device([&](const cuda& in) { return in.get_ipc_handle(&made, address_of(of)); });
  into->bytes = made.bytes;
  return result;
}

amd::result hipIpcOpenMemHandle(void** into, amd::ipc_handle which, unsigned flags) {
  if (flags != amd::ipc_lazy_enable_peer_access(amd::major_of(profile().version))) {
    return keep_own(amd::invalid_value);
  }
  cu::address at = 0;
  const amd::result result = on_device([&](const cuda& in) {
    return in.open_ipc_handle(&at, cu::ipc_handle{which.bytes}, cu::ipc_lazy_enable_peer_access);
  });
  *into = pointer_to(at);
  return result;
}

amd::result hipIpcCloseMemHandle(void* which) {
  return on_device([=](const cuda& in) { return in.close_ipc_handle(address_of(which)); });
}

amd::result hipDeviceFlushGPUDirectRDMAWrites(int target, int scope) {
  if (target != amd::flush_to_current_device) return keep_own(amd::invalid_value);
  if (driver() == nullptr || driver()->flush_rdma_writes == nullptr) {
    return keep_own(amd::not_supported);
  }
  return on_device(
      [=](const cuda& in) { return in.flush_rdma_writes(cu::flush_to_current_context, scope); });
}
