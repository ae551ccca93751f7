#include "devices/nic_memory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <tandem/log.hpp>

namespace tandem::devices {

void nic_memory::add(accelerator& of, const const_view& view) {
  const std::uint64_t number = of.allocation_id(view.data);
  if (number == 0 || !by_) return;
  if (const auto known = known_.find(number); known != known_.end()) {
    known->second.used = ++uses_;
    return;
  }
  forget_freed();
  evict();
  entry& made = known_[number];
  made.of = &of;
  made.used = ++uses_;
  try {
    const accelerator::range all = of.allocation_of(view.data);
    made.base = all.base;
    made.memory = register_all(of, all);
    log(log_level::debug, "devices",
        fmt::format("{} bytes on {}: {}", all.bytes, of.text(), made.memory.describe()));
  } catch (const error& why) {
    log(log_level::info, "devices",
        fmt::format("messages from an allocation on {} are staged through the host: {}", of.text(),
                    why.what()));
  }
}

/// By dma-buf where the driver exports one; else a peer memory module of the kernel may know the
/// addresses.
region nic_memory::register_all(accelerator& of, const accelerator::range& all) {
  const mutable_view memory(all.base, all.bytes, of.kind(), of.device());
  if (!of.facts().exports_dma_buf) return by_(memory, {});
  const accelerator::dma_buf exported = of.export_dma_buf(all.base, all.bytes);
  region made = by_(memory, {exported.descriptor, exported.offset_bytes});
  ::close(exported.descriptor);
  return made;
}

region nic_memory::add_host(mutable_view memory) {
  return by_ ? by_(memory, {}) : region();
}

void nic_memory::forget_freed() {
  std::erase_if(known_, [](const auto& one) {
    const auto& [number, of] = one;
    return of.base != nullptr && of.of->allocation_id(of.base) != number;
  });
}

void nic_memory::evict() {
  if (known_.size() < max_entries_) return;
  known_.erase(std::min_element(known_.begin(), known_.end(), [](const auto& a, const auto& b) {
    return a.second.used < b.second.used;
  }));
}

}  // namespace tandem::devices
