#include <algorithm>

#include "doubles/cuda/world.hpp"

namespace tandem::test::cuda {
namespace {

cu::result gone(world& in, const char* name) {
  return in.misuse(invalid_handle, std::string(name) + ": the event is destroyed");
}

cu::result create_event(cu::event* into, unsigned flags) {
  return call_on_device("cuEventCreate", [&](world& in, world::lock&, device& at) {
    constexpr unsigned known = 1 | cu::event_disable_timing;
    if ((flags & ~known) != 0) return cu::invalid_value;
    event made;
    made.handle = in.handle<cu::event>();
    made.device = at.ordinal;
    made.timed = (flags & cu::event_disable_timing) == 0;
    *into = made.handle;
    in.events.emplace(made.handle, made);
    return cu::success;
  });
}

cu::result destroy_event(cu::event which) {
  return call_to_free("cuEventDestroy", [&](world& in) {
    return in.events.erase(which) == 1 ? cu::success : gone(in, "cuEventDestroy");
  });
}

cu::result record_event(cu::event which, cu::stream on) {
  return call_on_device("cuEventRecord", [&](world& in, world::lock&, device& at) {
    const auto found = in.events.find(which);
    if (found == in.events.end()) return gone(in, "cuEventRecord");
    const std::shared_ptr<stream> where = in.stream_of(on, at);
    if (!where) return in.misuse(invalid_handle, "cuEventRecord: the stream is destroyed");
    if (where->device != found->second.device) {
      return in.misuse(invalid_handle, "cuEventRecord: stream and event are of two devices");
    }
    auto made = std::make_shared<record>();
    const cu::result queued = in.queue(
        *where,
        {.what = "cuEventRecord", .run = [made] { made->at = clock::now(); }, .signals = made});
    if (queued == cu::success) found->second.last = std::move(made);
    return queued;
  });
}

/// Waits for the event's record at this time; a later record does not matter.
cu::result wait_event(cu::stream which, cu::event for_, unsigned flags) {
  return call_on_device("cuStreamWaitEvent", [&](world& in, world::lock&, device& at) {
    const auto found = in.events.find(for_);
    if (found == in.events.end()) return gone(in, "cuStreamWaitEvent");
    const std::shared_ptr<stream> where = in.stream_of(which, at);
    if (!where) return in.misuse(invalid_handle, "cuStreamWaitEvent: the stream is destroyed");
    if (flags != 0) return cu::invalid_value;
    const std::shared_ptr<record> last = found->second.last;
    if (!last) return cu::success;
    return in.queue(
        *where,
        {.what = "cuStreamWaitEvent", .is_ready = [last] { return last->done; }, .run = [] {}});
  });
}

cu::result query_event(cu::event which) {
  return call("cuEventQuery", [&](world& in, world::lock&) {
    const auto found = in.events.find(which);
    if (found == in.events.end()) return gone(in, "cuEventQuery");
    const event& of = found->second;
    const bool is_any_captured =
        std::ranges::any_of(in.streams, [](const auto& each) { return each->capturing; });
    if (is_any_captured && this_threads_capture_mode() == cu::capture_mode::global) {
      return capture_unsupported;
    }
    const cu::result broken = in.devices[static_cast<std::size_t>(of.device)].broken;
    if (broken != cu::success) return broken;
    return !of.last || of.last->done ? cu::success : cu::not_ready;
  });
}

cu::result elapsed_ms(float* into, cu::event from, cu::event to) {
  return call_on_device("cuEventElapsedTime", [&](world& in, world::lock&, device&) {
    const auto first = in.events.find(from);
    const auto second = in.events.find(to);
    if (first == in.events.end() || second == in.events.end()) {
      return gone(in, "cuEventElapsedTime");
    }
    for (const event* const each : {&first->second, &second->second}) {
      if (!each->timed || !each->last) return invalid_handle;
      if (!each->last->done) return cu::not_ready;
    }
    const std::chrono::duration<float, std::milli> between =
        second->second.last->at - first->second.last->at;
    *into = between.count();
    return cu::success;
  });
}

}  // namespace

void fill_events(detail::cuda& table) {
  table.create_event = create_event;
  table.destroy_event = destroy_event;
  table.record_event = record_event;
  table.wait_event = wait_event;
  table.query_event = query_event;
  table.elapsed_ms = elapsed_ms;
}

}  // namespace tandem::test::cuda
