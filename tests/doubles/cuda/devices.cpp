#include <cstdio>
#include <cstring>

#include "doubles/cuda/world.hpp"

namespace tandem::test::cuda {
namespace {

cu::result init(unsigned flags) {
  return call("cuInit",
              [&](world&, world::lock&) { return flags == 0 ? cu::success : cu::invalid_value; });
}

cu::result driver_version(int* into) {
  return call("cuDriverGetVersion", [&](world& in, world::lock&) {
    *into = in.options.driver_version;
    return cu::success;
  });
}

cu::result device_count(int* into) {
  return call("cuDeviceGetCount", [&](world& in, world::lock&) {
    *into = in.options.devices;
    return cu::success;
  });
}

/// A call that queries a device: `body(world&)`.
template <class Body>
cu::result ask(const char* name, cu::device of, Body body) {
  return call(name, [&](world& in, world::lock&) {
    if (of < 0 || of >= in.options.devices) return invalid_device;
    return body(in);
  });
}

cu::result device_get(cu::device* into, int ordinal) {
  return ask("cuDeviceGet", ordinal, [&](world&) {
    *into = ordinal;
    return cu::success;
  });
}

cu::result put(char* into, int bytes, const std::string& text) {
  if (bytes <= 0) return cu::invalid_value;
  std::snprintf(into, static_cast<std::size_t>(bytes), "%s", text.c_str());
  return cu::success;
}

cu::result device_name(char* into, int bytes, cu::device of) {
  return ask("cuDeviceGetName", of, [&](world& in) { return put(into, bytes, in.options.name); });
}

cu::result device_pci(char* into, int bytes, cu::device of) {
  return ask("cuDeviceGetPCIBusId", of, [&](world&) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "00FF:%02X:00.0", 0x3b + of);
    return put(into, bytes, text.data());
  });
}

cu::result device_uuid(cu::uuid* into, cu::device of) {
  return ask("cuDeviceGetUuid", of, [&](world&) {
    for (std::size_t i = 0; i < 16; ++i) into->bytes[i] = static_cast<char>(0xf0 + i);
    into->bytes[0] = static_cast<char>(of);
    return cu::success;
  });
}

cu::result device_memory(std::size_t* into, cu::device of) {
  return ask("cuDeviceTotalMem", of, [&](world& in) {
    *into = in.options.memory_bytes;
    return cu::success;
  });
}

cu::result device_attribute(int* into, int which, cu::device of) {
  return ask("cuDeviceGetAttribute", of, [&](world& in) {
    switch (which) {
      case cu::multiprocessor_count:
        *into = 132;
        break;
      case cu::async_engine_count:
        *into = 3;
        break;
      case cu::unified_addressing:
        *into = 1;
        break;
      case cu::compute_capability_major:
        *into = in.options.major;
        break;
      case cu::compute_capability_minor:
        *into = in.options.minor;
        break;
      case cu::gpu_direct_rdma_supported:
      case cu::gpu_direct_rdma_flush_options:
        *into = in.options.gpu_direct ? 1 : 0;
        break;
      case cu::gpu_direct_rdma_writes_ordering:
        *into = in.options.gpu_direct ? in.options.writes_ordering : 0;
        break;
      case cu::can_use_64_bit_stream_mem_ops:
        *into = in.options.stream_values ? 1 : 0;
        break;
      case cu::mps_enabled:
        *into = in.options.mps ? 1 : 0;
        break;
      case cu::dma_buf_supported:
        *into = in.options.dma_buf ? 1 : 0;
        break;
      default:
        return cu::invalid_value;
    }
    return cu::success;
  });
}

cu::result can_access_peer(int* into, cu::device from, cu::device memory_of) {
  return ask("cuDeviceCanAccessPeer", from, [&](world& in) {
    if (memory_of < 0 || memory_of >= in.options.devices) return invalid_device;
    *into = in.may_reach(from, memory_of) ? 1 : 0;
    return cu::success;
  });
}

}  // namespace

void fill_devices(detail::cuda& table) {
  table.init = init;
  table.driver_version = driver_version;
  table.device_count = device_count;
  table.device_get = device_get;
  table.device_name = device_name;
  table.device_attribute = device_attribute;
  table.device_memory = device_memory;
  table.device_pci = device_pci;
  table.device_uuid = device_uuid;
  table.can_access_peer = can_access_peer;
}

}  // namespace tandem::test::cuda
