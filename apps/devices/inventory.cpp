#include "devices/inventory.hpp"

#include <fmt/format.h>

#include <tandem/detail/ibverbs.hpp>
#include <tandem/detail/nccl.hpp>

namespace tandem::inventory {
namespace {

std::vector<ability> abilities_of(accelerator& one, const accelerators& all) {
  const accelerator_facts& facts = one.facts();
  std::vector<ability> list;
  for (accelerator* const other : all.found) {
    if (other == &one) continue;
    const std::string what = fmt::format("copies to {}:{}", name(facts.kind), other->device());
    try {
      const bool reaches = one.reaches(other->device());
      list.push_back(
          {what, reaches,
           reaches ? "" : "no peer access between the two: messages go through the host"});
    } catch (const error& failed) {
      list.push_back({what, false, failed.what()});
    }
  }
  list.push_back({"streams wait for words", facts.has_stream_values,
                  facts.has_stream_values ? "" : "the driver has no stream memory operations"});
  list.push_back({"dma-buf", facts.exports_dma_buf,
                  facts.exports_dma_buf
                      ? ""
                      : "the driver exports none: it needs the vendor's open kernel "
                        "modules and Linux 5.12 or newer"});
  std::string why;
  const bool verbs = detail::find_ibverbs(why) != nullptr;
  if (!facts.takes_rdma) why = "the driver says that NICs cannot reach its memory";
  list.push_back({"memory for RDMA NICs", facts.takes_rdma && verbs,
                  facts.takes_rdma && verbs ? "`tandem rails` lists the NICs" : why});
  return list;
}

ability library_of(memory_kind kind) {
  std::string why;
  const std::string name = kind == memory_kind::cuda ? "NCCL" : "RCCL";
  const detail::nccl* const there = detail::find_nccl(kind, why);
  if (there == nullptr) return {name, false, why};
  int version = 0;
  there->version(&version);
  return {name, true, fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)};
}

}  // namespace

std::vector<vendor> take() {
  std::vector<vendor> all;
  for (const memory_kind kind : {memory_kind::cuda, memory_kind::hip}) {
    const accelerators found = find_accelerators(kind);
    vendor& one = all.emplace_back(vendor{kind, found.why_none, {}, {}});
    for (accelerator* const each : found.found) {
      one.devices.push_back({each->facts(), abilities_of(*each, found)});
    }
    one.libraries.push_back(library_of(kind));
  }
  return all;
}

}  // namespace tandem::inventory
