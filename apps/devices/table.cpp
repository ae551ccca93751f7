#include <fmt/format.h>

#include "cli/text.hpp"
#include "devices/inventory.hpp"

namespace tandem::inventory {
namespace {

std::string line(const capability& one) {
  const std::string why = one.why.empty() ? "" : (one.available ? ", " : ": ") + one.why;
  return fmt::format("  {:<3} {}{}\n", one.available ? "yes" : "no", one.name, why);
}

}  // namespace

std::string table(const std::vector<vendor>& all) {
  std::string text;
  for (const vendor& one : all) {
    if (one.devices.empty()) {
      text += fmt::format("{}: {}\n", name(one.kind), one.why_none);
      continue;
    }
    for (const device& each : one.devices) {
      const accelerator_facts& f = each.facts;
      text += fmt::format(
          "{}:{}  {}, {}, {:.1f} GiB, {} multiprocessors, {} copy engines, PCI {}, "
          "NUMA node {}, driver {}\n",
          name(f.kind), f.device, f.name, f.architecture,
          static_cast<double>(f.memory_bytes) / (1 << 30), f.multiprocessors, f.copy_engines, f.pci,
          f.numa_node < 0 ? "unknown" : std::to_string(f.numa_node), f.driver);
      for (const capability& can : each.capabilities) text += line(can);
    }
    for (const capability& can : one.libraries) text += line(can);
  }
  return text;
}

std::string json(const device& one) {
  const accelerator_facts& f = one.facts;
  std::string capabilities;
  for (const capability& can : one.capabilities) {
    capabilities +=
        fmt::format(R"({}{{"what": {}, "there": {}, "why": {}}})", capabilities.empty() ? "" : ", ",
                    cli::json_text(can.name), can.available, cli::json_text(can.why));
  }
  return fmt::format(
      R"({{"kind": {}, "device": {}, "name": {}, "architecture": {}, "memory_bytes": {}, )"
      R"("multiprocessors": {}, "copy_engines": {}, "pci": {}, "uuid": {}, "numa_node": {}, )"
      R"("driver": {}, "abilities": [{}]}})",
      cli::json_text(name(f.kind)), f.device, cli::json_text(f.name),
      cli::json_text(f.architecture), f.memory_bytes, f.multiprocessors, f.copy_engines,
      cli::json_text(f.pci), cli::json_text(f.uuid), f.numa_node, cli::json_text(f.driver),
      capabilities);
}

}  // namespace tandem::inventory
