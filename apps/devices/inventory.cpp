#include "devices/inventory.hpp"

#include <fmt/format.h>

#include <tandem/channels.hpp>
#include <tandem/detail/nccl.hpp>

namespace tandem::inventory {
namespace {

/// GPUDirect RDMA with each NIC.
void add_nics(const accelerator_facts& facts, std::vector<capability>& list) {
  if (!facts.supports_rdma) {
    list.push_back(
        {"GPUDirect RDMA", false, "the driver reports that NICs cannot reach its memory"});
    return;
  }
  const rails::device_direct_nics nics =
      rails::find_device_direct_nics(facts.kind, facts.exports_dma_buf);
  if (nics.all.empty()) list.push_back({"GPUDirect RDMA", false, nics.why_none});
  for (const rails::device_direct_nic& one : nics.all) {
    list.push_back({"GPUDirect RDMA with " + one.device, one.reaches, one.why});
  }
}

std::vector<capability> capabilities_of(accelerator& one, const accelerators& all) {
  const accelerator_facts& facts = one.facts();
  std::vector<capability> list;
  for (accelerator* const other : all.found) {
    if (other == &one) continue;
    const std::string what = fmt::format("peer copies to {}:{}", name(facts.kind), other->device());
    try {
      const bool reaches = one.can_access_peer(other->device());
      list.push_back({what, reaches,
                      reaches ? "" : "no peer access: messages are staged through host memory"});
    } catch (const error& failed) {
      list.push_back({what, false, failed.what()});
    }
  }
  list.push_back({"stream memory operations", facts.has_stream_memory_ops,
                  facts.has_stream_memory_ops ? ""
                                              : "the driver does not provide them, or "
                                                "CUDA_DEVICE_MAX_CONNECTIONS is less than 8, or "
                                                "not set where MPS shares the device"});
  list.push_back({"dma-buf", facts.exports_dma_buf,
                  facts.exports_dma_buf
                      ? ""
                      : "the driver cannot export it: this takes the vendor's open "
                        "kernel modules and Linux 5.12 or newer"});
  add_nics(facts, list);
  return list;
}

capability library_of(memory_kind kind) {
  std::string why;
  const std::string name = kind == memory_kind::cuda ? "NCCL" : "RCCL";
  const detail::nccl* const library = detail::find_nccl(kind, why);
  if (library == nullptr) return {name, false, why};
  int version = 0;
  library->version(&version);
  return {name, true, fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)};
}

}  // namespace

std::vector<vendor> take_inventory() {
  std::vector<vendor> all;
  for (const memory_kind kind : {memory_kind::cuda, memory_kind::hip}) {
    const accelerators found = find_accelerators(kind);
    vendor& one = all.emplace_back(vendor{kind, found.why_none, {}, {}});
    for (accelerator* const each : found.found) {
      one.devices.push_back({each->facts(), capabilities_of(*each, found)});
    }
    one.libraries.push_back(library_of(kind));
  }
  return all;
}

}  // namespace tandem::inventory
