#include <utility>

#include "doubles/cuda/world.hpp"

namespace tandem::test::cuda {
namespace {

cu::result create_stream(cu::stream* into, unsigned flags, int priority) {
  return call_on_device("cuStreamCreateWithPriority", [&](world& in, world::lock&, device& at) {
    if ((flags & ~cu::stream_non_blocking) != 0) return cu::invalid_value;
    auto made = std::make_shared<stream>();
    made->handle = in.handle<cu::stream>();
    made->device = at.ordinal;
    made->blocking = flags == 0;
    if (in.hardware_queues > 0)
      made->queue.emplace(priority, in.streams_made++ % in.hardware_queues);
    *into = made->handle;
    in.streams.push_back(std::move(made));
    return cu::success;
  });
}

cu::result destroy_stream(cu::stream which) {
  return call_to_free("cuStreamDestroy", [&](world& in) {
    device* const at = in.current();
    const std::shared_ptr<stream> found = which == nullptr ? nullptr : in.stream_of(which, *at);
    if (!found) return in.misuse(invalid_handle, "cuStreamDestroy: it is destroyed already");
    found->destroyed = true;  // its work continues
    in.forget_idle();
    return cu::success;
  });
}

cu::result synchronize_stream(cu::stream which) {
  return call_on_device("cuStreamSynchronize", [&](world& in, world::lock& held, device& at) {
    const std::shared_ptr<stream> found = in.stream_of(which, at);
    if (!found) return in.misuse(invalid_handle, "cuStreamSynchronize: the stream is destroyed");
    return in.synchronize(held, found);
  });
}

cu::result is_capturing(cu::stream which, int* into) {
  return call_on_device("cuStreamIsCapturing", [&](world& in, world::lock&, device& at) {
    const std::shared_ptr<stream> found = in.stream_of(which, at);
    if (!found) return in.misuse(invalid_handle, "cuStreamIsCapturing: the stream is destroyed");
    *into = found->capturing ? 1 : 0;
    return cu::success;
  });
}

cu::result exchange_capture_mode(cu::capture_mode* mode) {
  std::swap(*mode, this_threads_capture_mode());
  return cu::success;
}

cu::result launch_host(cu::stream on, cu::host_function what, void* with) {
  return call_on_device("cuLaunchHostFunc", [&](world& in, world::lock&, device& at) {
    const std::shared_ptr<stream> found = in.stream_of(on, at);
    if (!found) return in.misuse(invalid_handle, "cuLaunchHostFunc: the stream is destroyed");
    if (what == nullptr) return cu::invalid_value;
    return in.queue(*found, {.what = "cuLaunchHostFunc",
                             .run =
                                 [&in, what, with] {
                                   what(with);
                                   const std::lock_guard held(in.mutex);
                                   ++in.seen.host_functions;
                                 },
                             .without_lock = true});
  });
}

}  // namespace

cu::capture_mode& this_threads_capture_mode() noexcept {
  static constinit thread_local cu::capture_mode mode = cu::capture_mode::global;
  return mode;
}

std::shared_ptr<stream> world::stream_of(cu::stream which, device& at) {
  if (which == nullptr || which == legacy_stream) return at.default_stream;
  for (const auto& each : streams) {
    if (each->handle == which && !each->destroyed) return each;
  }
  return nullptr;
}

void fill_streams(detail::cuda& table) {
  table.create_stream = create_stream;
  table.destroy_stream = destroy_stream;
  table.synchronize_stream = synchronize_stream;
  table.is_capturing = is_capturing;
  table.exchange_capture_mode = exchange_capture_mode;
  table.launch_host = launch_host;
}

}  // namespace tandem::test::cuda
