#include "devices/table.hpp"

#include <fmt/format.h>

#include "cli/json_text.hpp"

namespace tandem::inventory {
namespace {

std::string line(const ability& one) {
  const std::string why = one.why.empty() ? "" : (one.there ? ", " : ": ") + one.why;
  return fmt::format("  {:<3} {}{}\n", one.there ? "yes" : "no", one.name, why);
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
      for (const ability& can : each.abilities) text += line(can);
    }
    for (const ability& can : one.libraries) text += line(can);
  }
  return text;
}

std::string json(const device& one) {
  const accelerator_facts& f = one.facts;
  std::string abilities;
  for (const ability& can : one.abilities) {
    abilities +=
        fmt::format(R"({}{{"what": {}, "there": {}, "why": {}}})", abilities.empty() ? "" : ", ",
                    cli::json_text(can.name), can.there, cli::json_text(can.why));
  }
  return fmt::format(
      R"({{"kind": {}, "device": {}, "name": {}, "architecture": {}, "memory_bytes": {}, )"
      R"("multiprocessors": {}, "copy_engines": {}, "pci": {}, "uuid": {}, "numa_node": {}, )"
      R"("driver": {}, "abilities": [{}]}})",
      cli::json_text(name(f.kind)), f.device, cli::json_text(f.name),
      cli::json_text(f.architecture), f.memory_bytes, f.multiprocessors, f.copy_engines,
      cli::json_text(f.pci), cli::json_text(f.uuid), f.numa_node, cli::json_text(f.driver),
      abilities);
}

}  // namespace tandem::inventory
