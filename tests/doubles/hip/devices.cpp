#include <cstdio>
#include <cstring>

#include "doubles/hip/translation.hpp"

using namespace tandem::test::translation;
using tandem::detail::cuda;

amd::result hipInit(unsigned flags) {
  const cuda* const in = driver();
  return in == nullptr ? keep_own(amd::no_device) : keep(in->init(flags));
}

amd::result hipRuntimeGetVersion(int* into) {
  *into = profile().version;
  return amd::success;
}

amd::result hipGetDeviceCount(int* into) {
  const cuda* const in = driver();
  *into = 0;
  return in == nullptr ? keep_own(amd::no_device) : keep(in->device_count(into));
}

amd::result hipGetDevice(int* into) {
  *into = device();
  return amd::success;
}

amd::result hipSetDevice(int which) {
  int count = 0;
  const amd::result result = hipGetDeviceCount(&count);
  if (result != amd::success) return result;
  if (which < 0 || which >= count) return keep_own(amd::invalid_device);
  device() = which;
  return amd::success;
}

namespace {

/// Queries a device: its handle, and CUDA's result of `what(cuda, handle)`.
template <class Function>
amd::result about(int ordinal, Function what) {
  const cuda* const in = driver();
  if (in == nullptr) return keep_own(amd::not_initialized);
  cu::device of = 0;
  const cu::result result = in->device_get(&of, ordinal);
  return keep(result == cu::success ? what(*in, of) : result);
}

int in_cuda(int attribute) noexcept {
  switch (attribute) {
    case amd::multiprocessor_count:
      return cu::multiprocessor_count;
    case amd::async_engine_count:
      return cu::async_engine_count;
    case amd::can_use_stream_wait_value:
      return cu::can_use_64_bit_stream_mem_ops;
    default:
      return 0;
  }
}

}  // namespace

/// Names the real device.
amd::result hipDeviceGetName(char* into, int bytes, int of) {
  char name[200] = {};
  const amd::result result = about(of, [&name](const cuda& in, cu::device which) {
    return in.device_name(name, static_cast<int>(sizeof(name)), which);
  });
  std::snprintf(into, static_cast<std::size_t>(bytes), "HIP on %s", name);
  return result;
}

amd::result hipDeviceGetAttribute(int* into, int which, int of) {
  if (which == amd::hdp_memory_flush_register) {
    std::uint32_t* const at = &flush_register();
    std::memcpy(into, &at, sizeof(at));
    return amd::success;
  }
  if (in_cuda(which) == 0) return keep_own(amd::invalid_value);
  const amd::result result = about(of, [&](const cuda& in, cu::device device) {
    return in.device_attribute(into, in_cuda(which), device);
  });
  if (which == amd::can_use_stream_wait_value && !profile().has_stream_memory_ops) *into = 0;
  return result;
}

amd::result hipDeviceTotalMem(std::size_t* into, int of) {
  return about(of,
               [into](const cuda& in, cu::device which) { return in.device_memory(into, which); });
}

amd::result hipDeviceGetPCIBusId(char* into, int bytes, int of) {
  return about(of,
               [=](const cuda& in, cu::device which) { return in.device_pci(into, bytes, which); });
}

amd::result hipDeviceGetUuid(amd::uuid* into, int of) {
  if (!profile().has_unique_ids) {
    *into = {};
    return amd::success;
  }
  cu::uuid id{};
  const amd::result result =
      about(of, [&id](const cuda& in, cu::device which) { return in.device_uuid(&id, which); });
  into->bytes = id.bytes;
  return result;
}

amd::result hipDeviceCanAccessPeer(int* into, int from, int memory_of) {
  return about(from, [=](const cuda& in, cu::device which) {
    cu::device other = 0;
    const cu::result result = in.device_get(&other, memory_of);
    return result == cu::success ? in.can_access_peer(into, which, other) : result;
  });
}

amd::result hipDeviceEnablePeerAccess(int to, unsigned flags) {
  const cuda* const in = driver();
  if (in == nullptr) return keep_own(amd::not_initialized);
  cu::context theirs = nullptr;
  const int mine = device();
  device() = to;
  if (const cuda* const there = enter()) there->pop_context(&theirs);
  device() = mine;
  if (theirs == nullptr) return keep_own(amd::invalid_device);
  return on_device([=](const cuda& by) { return by.enable_peer_access(theirs, flags); });
}
