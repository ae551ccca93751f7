#include <bit>

#include "doubles/hip/translation.hpp"

using namespace tandem::test::translation;
using tandem::detail::cuda;

amd::result hipStreamCreateWithPriority(amd::stream* into, unsigned flags, int priority) {
  return on_device([=](const cuda& in) {
    return in.create_stream(reinterpret_cast<cu::stream*>(into), flags, priority);
  });
}

amd::result hipStreamDestroy(amd::stream which) {
  return on_device([=](const cuda& in) { return in.destroy_stream(as(which)); });
}

amd::result hipStreamSynchronize(amd::stream which) {
  return on_device([=](const cuda& in) { return in.synchronize_stream(as(which)); });
}

amd::result hipStreamWaitEvent(amd::stream which, amd::event for_, unsigned flags) {
  return on_device([=](const cuda& in) { return in.wait_event(as(which), as(for_), flags); });
}

amd::result hipStreamIsCapturing(amd::stream which, int* into) {
  return on_device([=](const cuda& in) { return in.is_capturing(as(which), into); });
}

amd::result hipThreadExchangeStreamCaptureMode(amd::capture_mode* mode) {
  auto as_cuda = static_cast<cu::capture_mode>(*mode);
  const amd::result done =
      on_device([&](const cuda& in) { return in.exchange_capture_mode(&as_cuda); });
  *mode = static_cast<amd::capture_mode>(as_cuda);
  return done;
}

/// Compares all 32 bits, like CUDA: it has no mask.
amd::result hipStreamWaitValue32(amd::stream which, void* at, std::uint32_t value, unsigned flags,
                                 std::uint32_t mask) {
  if (mask != ~0U) return keep_own(amd::not_supported);
  return on_device(
      [=](const cuda& in) { return in.wait_value(as(which), address_of(at), value, flags); });
}

amd::result hipStreamWriteValue32(amd::stream which, void* at, std::uint32_t value,
                                  unsigned flags) {
  return on_device(
      [=](const cuda& in) { return in.write_value(as(which), address_of(at), value, flags); });
}

amd::result hipLaunchHostFunc(amd::stream on, amd::host_function what, void* with) {
  return on_device([=](const cuda& in) { return in.launch_host(as(on), what, with); });
}

/// HIP accepts at most one of the flags for the scope of cache write-back.
amd::result hipEventCreateWithFlags(amd::event* into, unsigned flags) {
  constexpr unsigned releases = 0x20000000 | 0x40000000 | amd::event_release_to_system;
  if (std::popcount(flags & releases) > 1) return keep_own(amd::invalid_value);
  return on_device([=](const cuda& in) {
    return in.create_event(reinterpret_cast<cu::event*>(into), flags & ~releases);
  });
}

amd::result hipEventDestroy(amd::event which) {
  return on_device([=](const cuda& in) { return in.destroy_event(as(which)); });
}

amd::result hipEventRecord(amd::event which, amd::stream on) {
  return on_device([=](const cuda& in) { return in.record_event(as(which), as(on)); });
}

amd::result hipEventQuery(amd::event which) {
  return on_device([=](const cuda& in) { return in.query_event(as(which)); });
}

amd::result hipModuleLoadData(amd::module* into, const void* image) {
  return on_device(
      [=](const cuda& in) { return in.load_module(reinterpret_cast<cu::module*>(into), image); });
}

amd::result hipModuleUnload(amd::module which) {
  return on_device(
      [=](const cuda& in) { return in.unload_module(reinterpret_cast<cu::module>(which)); });
}

amd::result hipModuleGetFunction(amd::function* into, amd::module from, const char* name) {
  return on_device([=](const cuda& in) {
    return in.find_function(reinterpret_cast<cu::function*>(into),
                            reinterpret_cast<cu::module>(from), name);
  });
}

amd::result hipModuleLaunchKernel(amd::function what, unsigned grid_x, unsigned grid_y,
                                  unsigned grid_z, unsigned block_x, unsigned block_y,
                                  unsigned block_z, unsigned shared_bytes, amd::stream on,
                                  void** arguments, void** extra) {
  return on_device([=](const cuda& in) {
    return in.launch(reinterpret_cast<cu::function>(what), grid_x, grid_y, grid_z, block_x, block_y,
                     block_z, shared_bytes, as(on), arguments, extra);
  });
}
