#include "doubles/rdma/memory.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "doubles/rdma/world.hpp"

namespace tandem::test::rdma {
namespace {

ibv_pd* alloc_pd(ibv_context* of) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  context* const found = in.live(in.contexts, of, "alloc_pd");
  if (found == nullptr) return errno = EINVAL, nullptr;
  if ((errno = in.faults.take_error(call::alloc_pd)) != 0) return nullptr;
  if (found->lost) return errno = EIO, nullptr;
  pd& made = in.pds.add(std::make_unique<pd>());
  made.context = of;
  return &made;
}

int dealloc_pd(ibv_pd* which) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  if (in.live(in.pds, which, "dealloc_pd") == nullptr) return EINVAL;
  const auto inside = [&](const auto& one) { return one.pd == which; };
  if (in.memory.any_in(*which) || in.qps.any(inside)) return EBUSY;
  in.pds.remove(which);
  return 0;
}

std::uintptr_t page() {
  return static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
}

constexpr int remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

device& device_of(const ibv_pd& in) {
  return static_cast<context*>(in.context)->from();
}

/// 0 or errno.
int may_register(world& in, ibv_pd* where, std::size_t bytes, int access, call which) {
  if (in.live(in.pds, where, "reg_mr") == nullptr) return EINVAL;
  if (const int error = in.faults.take_error(which)) return error;
  return memory_regions::refusal(*where, bytes, access);
}

ibv_mr* reg_mr(ibv_pd* where, void* from, std::size_t bytes, int access) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  if ((errno = may_register(in, where, bytes, access, call::reg_mr)) != 0) return nullptr;
  // Pinning accesses the pages: unmapped memory is detected here.
  const volatile auto* const memory = static_cast<const volatile std::byte*>(from);
  static_cast<void>(memory[0]);
  static_cast<void>(memory[bytes - 1]);
  return &in.memory.add(*where, from, bytes, access);
}

constexpr unsigned optional_access = IBV_ACCESS_OPTIONAL_RANGE;

/// Removes the optional access flags, which this device does not know.
ibv_mr* reg_mr_iova2(ibv_pd* where, void* from, std::size_t bytes, std::uint64_t iova,
                     unsigned access) {
  if (iova != reinterpret_cast<std::uintptr_t>(from)) return errno = EOPNOTSUPP, nullptr;
  return reg_mr(where, from, bytes, static_cast<int>(access & ~optional_access));
}

ibv_mr* reg_dmabuf_mr(ibv_pd* where, std::uint64_t offset, std::size_t bytes, std::uint64_t iova,
                      int descriptor, int access) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  access &= ~static_cast<int>(optional_access);
  errno = may_register(in, where, bytes, access, call::reg_dmabuf_mr);
  if (errno != 0) return nullptr;
  if (!device_of(*where).spec.dmabuf) return errno = EOPNOTSUPP, nullptr;
  const std::uint64_t before = offset % page();
  void* const found = ::mmap(nullptr, before + bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                             descriptor, static_cast<off_t>(offset - before));
  if (found == MAP_FAILED) return nullptr;
  mr& made = in.memory.add(*where, found, bytes, access);
  made.addr = reinterpret_cast<void*>(iova);
  made.memory = static_cast<std::byte*>(found) + before;
  made.iova = iova;
  made.mapped = true;
  return &made;
}

int dereg_mr(ibv_mr* which) {
  world& in = world::current();
  const std::lock_guard lock(in.mutex);
  mr* const found = in.live(in.memory, which, "dereg_mr");
  if (found == nullptr) return EINVAL;
  in.memory.remove(*found);
  return 0;
}

bool covers(const mr& region, std::uint64_t at, std::size_t bytes) {
  return at >= region.iova && bytes <= region.length && at - region.iova <= region.length - bytes;
}

void add_part(const mr& region, std::uint64_t at, std::size_t bytes, spans& into) {
  into.emplace_back(region.memory + (at - region.iova), bytes);
}

}  // namespace

int memory_regions::refusal(const ibv_pd& in, std::size_t bytes, int access) {
  const device& of = device_of(in);
  if (of.dead || static_cast<context*>(in.context)->lost) return EIO;
  constexpr int known = IBV_ACCESS_LOCAL_WRITE | remote | IBV_ACCESS_REMOTE_READ;
  if (bytes == 0 || (access & ~known) != 0 ||
      ((access & remote) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
    return EINVAL;
  }
  return bytes > of.spec.max_registered - of.registered ? ENOMEM : 0;
}

/// The two keys differ, and none is reused, so that a wrong key never works by chance.
mr& memory_regions::add(ibv_pd& in, void* from, std::size_t bytes, int access) {
  mr& made = all_.add(std::make_unique<mr>());
  made.context = in.context;
  made.pd = &in;
  made.addr = from;
  made.length = bytes;
  made.memory = static_cast<std::byte*>(from);
  made.iova = reinterpret_cast<std::uintptr_t>(from);
  made.access = access;
  made.handle = next_key_++;
  made.lkey = made.handle << 8;
  made.rkey = made.lkey | 0x80;
  device_of(in).registered += bytes;
  ++seen_.registrations;
  return made;
}

void memory_regions::remove(mr& which) {
  device_of(*which.pd).registered -= which.length;
  if (which.mapped) {
    const auto before = reinterpret_cast<std::uintptr_t>(which.memory) % page();
    ::munmap(which.memory - before, before + which.length);
  }
  all_.remove(&which);
}

bool memory_regions::any_in(const ibv_pd& domain) const {
  return all_.any([&](const mr& one) { return one.pd == &domain; });
}

std::size_t memory_regions::bytes() const {
  std::size_t sum = 0;
  for (const auto& one : all_) sum += one->length;
  return sum;
}

bool memory_regions::resolve(const qp& of, const std::vector<ibv_sge>& parts, bool to_write,
                             spans& into) const {
  for (const ibv_sge& part : parts) {
    if (part.length == 0) continue;
    const bool found = all_.any([&](const mr& region) {
      if (region.lkey != part.lkey || region.pd != of.pd) return false;
      if (to_write && (region.access & IBV_ACCESS_LOCAL_WRITE) == 0) return false;
      if (!covers(region, part.addr, part.length)) return false;
      add_part(region, part.addr, part.length, into);
      return true;
    });
    if (!found) return false;
  }
  return true;
}

bool memory_regions::resolve_remote(const qp& of, std::uint32_t rkey, std::uint64_t at,
                                    std::size_t bytes, int access, spans& into) const {
  if ((of.attr.qp_access_flags & static_cast<unsigned>(access)) == 0) return false;
  if (bytes == 0) return true;
  return all_.any([&](const mr& region) {
    if (region.rkey != rkey || region.pd != of.pd || (region.access & access) == 0) return false;
    if (!covers(region, at, bytes)) return false;
    add_part(region, at, bytes, into);
    return true;
  });
}

void fill_memory(detail::ibverbs& table) {
  table.alloc_pd = alloc_pd;
  table.dealloc_pd = dealloc_pd;
  table.reg_mr = reg_mr;
  table.reg_mr_iova2 = reg_mr_iova2;
  table.reg_dmabuf_mr = reg_dmabuf_mr;
  table.dereg_mr = dereg_mr;
}

}  // namespace tandem::test::rdma
