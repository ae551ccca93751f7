#include "doubles/cuda/world.hpp"

namespace tandem::test::cuda {
namespace {

// The handles of primary contexts are the same in every double.
constexpr std::uintptr_t first_context = 0x00c0'0000'0000'0000;

cu::context handle_of(int ordinal) {
  return reinterpret_cast<cu::context>(first_context + static_cast<std::uintptr_t>(ordinal) * 16);
}

/// Null: no such context, or it is not retained.
device* behind(world& in, cu::context which) {
  for (device& each : in.devices) {
    if (handle_of(each.ordinal) == which) return each.retained > 0 ? &each : nullptr;
  }
  return nullptr;
}

cu::result retain_primary(cu::context* into, cu::device of) {
  return call("cuDevicePrimaryCtxRetain", [&](world& in, world::lock&) {
    if (of < 0 || of >= in.options.devices) return invalid_device;
    ++in.devices[static_cast<std::size_t>(of)].retained;
    *into = handle_of(of);
    return cu::success;
  });
}

cu::result release_primary(cu::device of) {
  return call("cuDevicePrimaryCtxRelease", [&](world& in, world::lock&) {
    if (of < 0 || of >= in.options.devices) return invalid_device;
    device& at = in.devices[static_cast<std::size_t>(of)];
    if (at.retained == 0) {
      return in.misuse(cu::invalid_context, "cuDevicePrimaryCtxRelease: it was not retained");
    }
    --at.retained;
    return cu::success;
  });
}

cu::result push_context(cu::context which) {
  return call("cuCtxPushCurrent", [&](world& in, world::lock&) {
    const device* const at = behind(in, which);
    if (at == nullptr) {
      return in.misuse(cu::invalid_context, "cuCtxPushCurrent: no context that is retained");
    }
    in.stacks[std::this_thread::get_id()].push_back(at->ordinal);
    return cu::success;
  });
}

cu::result pop_context(cu::context* into) {
  return call("cuCtxPopCurrent", [&](world& in, world::lock&) {
    const auto of = in.stacks.find(std::this_thread::get_id());
    if (of == in.stacks.end()) return cu::invalid_context;
    if (into != nullptr) *into = handle_of(of->second.back());
    of->second.pop_back();
    if (of->second.empty()) in.stacks.erase(of);
    return cu::success;
  });
}

cu::result current_device(cu::device* into) {
  return call_on_device("cuCtxGetDevice", [&](world&, world::lock&, device& at) {
    *into = at.ordinal;
    return cu::success;
  });
}

cu::result enable_peer_access(cu::context to, unsigned flags) {
  return call_on_device("cuCtxEnablePeerAccess", [&](world& in, world::lock&, device& at) {
    const device* const other = behind(in, to);
    if (other == nullptr) return cu::invalid_context;
    if (flags != 0) return cu::invalid_value;
    if (other == &at) return invalid_device;
    if (!in.may_reach(at.ordinal, other->ordinal)) return peer_access_unsupported;
    return at.reached.insert(other->ordinal).second ? cu::success : cu::peer_access_already_enabled;
  });
}

}  // namespace

device* world::current() {
  const auto of = stacks.find(std::this_thread::get_id());
  return of == stacks.end() ? nullptr : &devices[static_cast<std::size_t>(of->second.back())];
}

bool world::may_reach(int from, int memory_of) const {
  if (from == memory_of) return false;
  if (!options.peers) return true;
  for (const auto& [one, other] : *options.peers) {
    if ((one == from && other == memory_of) || (one == memory_of && other == from)) return true;
  }
  return false;
}

void fill_contexts(detail::cuda& table) {
  table.retain_primary = retain_primary;
  table.release_primary = release_primary;
  table.push_context = push_context;
  table.pop_context = pop_context;
  table.current_device = current_device;
  table.enable_peer_access = enable_peer_access;
}

}  // namespace tandem::test::cuda
