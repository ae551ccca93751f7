#include "transports/rails/verbs/registration_method.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <tandem/detail/resources.hpp>
#include <vector>

namespace tandem::verbs {
namespace {

/// Only EBADF shows that descriptors are supported (as NCCL probes it).
std::string why_no_dmabuf(const registration_facts& of) {
  if (!of.is_exported) return "no dma-buf was given";
  if (!of.library_has_dmabuf) return "this libibverbs does not support dma-buf (rdma-core 34 does)";
  if (of.dmabuf_probe == EBADF) return {};
  return fmt::format("the device does not support dma-buf ({})",
                     detail::errno_text(of.dmabuf_probe));
}

}  // namespace

registration_choice choose_registration_method(const registration_facts& of) {
  const std::string_view kind = name(of.kind);
  if (of.kind == memory_kind::host && !of.is_exported) {
    return {registration_method::plain, "registered host memory"};
  }
  const std::string no_dmabuf = why_no_dmabuf(of);
  if (no_dmabuf.empty()) {
    return {registration_method::dmabuf, fmt::format("registered {} memory by its dma-buf", kind)};
  }
  if (of.kind == memory_kind::host) {
    return {registration_method::plain, fmt::format("registered host memory; {}", no_dmabuf)};
  }
  if (!of.peer_module.empty()) {
    return {registration_method::peer_module,
            fmt::format("registered {} memory through {}; {}", kind, of.peer_module, no_dmabuf)};
  }
  const std::string_view module =
      of.kind == memory_kind::cuda ? "nvidia_peermem" : "amdgpu's peers";
  return {registration_method::none,
          fmt::format("no RDMA to {} memory: {}, and no peer memory module is loaded ({})", kind,
                      no_dmabuf, module)};
}

std::string find_peer_module(memory_kind kind, const std::string& root) {
  struct module_file {
    memory_kind kind;
    const char* path;
    const char* name;
  };
  static const std::vector<module_file> files{
      {memory_kind::cuda, "/sys/module/nvidia_peermem/version", "nvidia_peermem"},
      {memory_kind::cuda, "/sys/kernel/mm/memory_peers/nv_mem/version", "nv_peer_mem"},
      {memory_kind::hip, "/sys/kernel/mm/memory_peers/amdkfd/version", "amdgpu (amdkfd)"},
      {memory_kind::hip, "/sys/memory_peers/amdkfd/version", "amdgpu (amdkfd)"}};
  for (const module_file& one : files) {
    std::error_code ignored;
    if (one.kind == kind && std::filesystem::exists(root + one.path, ignored)) return one.name;
  }
  return {};
}

}  // namespace tandem::verbs
