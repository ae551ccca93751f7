#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "doubles/cuda/world.hpp"

namespace tandem::test::cuda {
namespace {

constexpr std::array<char, 8> magic{'c', 'u', 'd', 'o', 'u', 'b', 'l', 'e'};

struct wire {
  std::array<char, 8> magic;
  std::uint64_t id;
  std::uint64_t bytes;
  std::int32_t process;
  std::int32_t descriptor;
  std::int32_t device;
};
static_assert(sizeof(wire) <= sizeof(cu::ipc_handle));

cu::result get_ipc_handle(cu::ipc_handle* into, cu::address of) {
  return call_on_device("cuIpcGetMemHandle", [&](world& in, world::lock&, device&) {
    const region* const found = in.find(of);
    if (found != nullptr && found->kind == region_kind::pages) return cu::invalid_value;
    if (found == nullptr || found->kind != region_kind::allocation) {
      return in.misuse(cu::invalid_value, "cuIpcGetMemHandle: " + in.what_is(of));
    }
    const wire made{magic,        found->id, found->bytes, ::getpid(), found->owned->descriptor(),
                    found->device};
    *into = {};
    std::memcpy(into->bytes.data(), &made, sizeof(made));
    return cu::success;
  });
}

cu::result open_ipc_handle(cu::address* into, cu::ipc_handle which, unsigned flags) {
  return call_on_device("cuIpcOpenMemHandle", [&](world& in, world::lock&, device& at) {
    wire said{};
    std::memcpy(&said, which.bytes.data(), sizeof(said));
    if (said.magic != magic || flags != cu::ipc_lazy_enable_peer_access || said.device < 0 ||
        said.device >= in.options.devices) {
      return cu::invalid_value;
    }
    if (said.device != at.ordinal && !in.may_reach(at.ordinal, said.device)) {
      return peer_access_unsupported;
    }
    region made;
    made.exported_here = said.process == ::getpid();
    for (const auto& [base, each] : in.regions) {
      if (each.is_host() || each.id != said.id) continue;
      if (each.kind == region_kind::opening && each.exported_here == made.exported_here) {
        return already_mapped;
      }
      if (each.kind == region_kind::allocation && made.exported_here) made.owned = each.owned;
    }
    if (!made.exported_here) {
      made.owned = backing::of_process(said.process, said.descriptor, said.bytes);
    }
    if (!made.owned) return map_failed;
    made.base = in.reserve(said.bytes);
    if (made.base == 0) return map_failed;
    made.kind = region_kind::opening;
    made.bytes = said.bytes;
    made.device = said.device;
    made.data = made.owned->data();
    made.id = said.id;
    made.opened_by = at.ordinal;
    *into = made.base;
    in.regions.emplace(made.base, made);
    return cu::success;
  });
}

cu::result close_ipc_handle(cu::address which) {
  return call_to_free("cuIpcCloseMemHandle", [&](world& in) {
    const auto found = in.regions.find(which);
    if (found == in.regions.end() || found->second.kind != region_kind::opening) {
      return in.misuse(cu::invalid_value, "cuIpcCloseMemHandle: " + in.what_is(which));
    }
    in.remove(which);
    return cu::success;
  });
}

cu::result export_range(void* into, cu::address from, std::size_t bytes, int type,
                        unsigned long long flags) {
  constexpr const char* name = "cuMemGetHandleForAddressRange";
  return call_on_device(name, [&](world& in, world::lock& held, device&) {
    if (!in.options.dma_buf) return cu::not_supported;
    in.quiesce(held);
    const region* const found = in.find(from);
    if (found == nullptr || found->kind != region_kind::allocation ||
        type != cu::dma_buf_descriptor || flags != 0 || from % page != 0 || bytes % page != 0 ||
        bytes == 0 || from - found->base + bytes > (found->bytes + page - 1) / page * page) {
      return in.misuse(cu::invalid_value, std::string(name) + ": " + in.what_is(from));
    }
    const int made = found->owned->export_part(from - found->base, bytes);
    if (made < 0) {
      return in.misuse(cu::not_supported, std::string(name) +
                                              ": the double exports the same pages or others, "
                                              "not a part of both");
    }
    *static_cast<int*>(into) = made;
    return cu::success;
  });
}

cu::result flush_rdma_writes(int target, int scope) {
  return call_on_device("cuFlushGPUDirectRDMAWrites", [&](world& in, world::lock&, device&) {
    if (!in.options.gpu_direct) return cu::not_supported;
    const bool is_known = target == cu::flush_to_current_context && scope == cu::flush_scope_owner;
    return is_known ? cu::success : cu::invalid_value;
  });
}

}  // namespace

int backing::export_part(std::size_t offset, std::size_t bytes) {
  for (const part& each : parts_) {
    if (each.offset == offset && bytes <= each.bytes) {
      return ::fcntl(each.descriptor, F_DUPFD_CLOEXEC, 0);
    }
    if (offset < each.offset + each.bytes && each.offset < offset + bytes) return -1;
  }
  if (offset == 0) {
    parts_.push_back({0, bytes, ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0)});
  } else {
    const int own = ::memfd_create("part of device memory", MFD_CLOEXEC);
    if (own < 0) return -1;
    if (::ftruncate(own, static_cast<off_t>(bytes)) != 0 ||
        ::pwrite(own, data_ + offset, bytes, 0) != static_cast<ssize_t>(bytes) ||
        ::mmap(data_ + offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, own, 0) ==
            MAP_FAILED) {
      return ::close(own), -1;
    }
    parts_.push_back({offset, bytes, own});
  }
  return ::fcntl(parts_.back().descriptor, F_DUPFD_CLOEXEC, 0);
}

void fill_ipc(detail::cuda& table) {
  table.get_ipc_handle = get_ipc_handle;
  table.open_ipc_handle = open_ipc_handle;
  table.close_ipc_handle = close_ipc_handle;
  table.export_range = export_range;
  table.flush_rdma_writes = flush_rdma_writes;
}

}  // namespace tandem::test::cuda
